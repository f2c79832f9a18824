"""The dominant resource share of a node: how much it borrows of what its cohort can lend.

Shares are exact fractions. A node of weight 0 that borrows comes after all others.

Source: Kueue 0.20, pkg/cache/scheduler/fair_sharing.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from podsched.api.quantity import MAX_INT64
from podsched.queues.quota import Amounts, FlavorResource, Node

_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a node in its dominant resource."""

    ratio: Fraction = _NOTHING
    """The borrowed amount, in thousandths of the amount that can be lent."""
    weight: Fraction = Fraction(1)
    resource: str = ""
    """The dominant resource, "" if nothing is borrowed."""
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def rank(self) -> tuple[bool, Fraction]:
        """The sort key of shares: whether the weighted share is infinite, and the share.

        At weight 0 the share of a borrower is infinite; then the ratio is compared.
        """
        if not self.weight:
            return self.ratio != 0, self.ratio
        return False, self.ratio if self.weight == 1 else self.ratio / self.weight

    @property
    def rounded(self) -> int:
        """The weighted share as in a status, rounded up; MAX_INT64 if infinite."""
        infinite, share = self.rank
        return MAX_INT64 if infinite else -(-share.numerator // share.denominator)

    def borrows_on(self, requests: Amounts) -> bool:
        """Whether the node borrows any of the requested flavors and resources."""
        return any(requests.get(key, 0) > 0 for key in self.borrowed)


def dominant_share(node: Node, extra: Amounts | None = None) -> Share:
    """Return the share of a node, with extra usage; 0 for a root, which cannot borrow."""
    if node.parent is None:
        return Share(weight=node.weight)
    extra = extra or {}
    borrowed = {
        key: over
        for key, quota in node.quota.items()
        if (over := extra.get(key, 0) + node.usage.get(key, 0) - quota) > 0
    }
    if not borrowed:
        return Share(weight=node.weight)
    of_resource: dict[str, int] = {}
    for key, over in borrowed.items():
        of_resource[key.resource] = of_resource.get(key.resource, 0) + over
    lendable = _lendable(node.parent)
    ratio, dominant = _NOTHING, ""
    # Sorted, so that of resources with equal ratios the first by name is the dominant one.
    for resource in sorted(of_resource):
        if lendable.get(resource, 0) > 0:
            this = Fraction(1000 * of_resource[resource], lendable[resource])
            if this > ratio:
                ratio, dominant = this, resource
    return Share(ratio, node.weight, dominant, frozenset(borrowed))


def _lendable(cohort: Node) -> dict[str, int]:
    if cohort.lendable is None:
        cohort.lendable = {}
        # The root's quota has an entry for each flavor and resource of its tree.
        for key in cohort.root.quota:
            more = cohort.lendable.get(key.resource, 0) + cohort.potential_available(key)
            cohort.lendable[key.resource] = more
    return cohort.lendable
