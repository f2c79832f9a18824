"""Dominant resource share: how much of what can be lent a node of a tree borrows.

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
    """What a node borrows of its dominant resource, in thousandths of what can be lent."""

    ratio: Fraction = _NOTHING
    weight: Fraction = Fraction(1)
    resource: str = ""
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def rank(self) -> tuple[bool, Fraction]:
        """The order of shares: the weighted share, or the ratio beyond all of them at weight 0."""
        if not self.weight:
            return self.ratio != 0, self.ratio
        return False, self.ratio if self.weight == 1 else self.ratio / self.weight

    @property
    def rounded(self) -> int:
        """The weighted share as a status shows it, rounded up."""
        infinite, share = self.rank
        return MAX_INT64 if infinite else -(-share.numerator // share.denominator)

    def borrows_on(self, requests: Amounts) -> bool:
        """Whether the node borrows what is requested."""
        return any(requests.get(key, 0) > 0 for key in self.borrowed)


def dominant_share(node: Node, extra: Amounts | None = None) -> Share:
    """Return the share of a node, with extra usage; a root borrows from no one."""
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
    # Of equal ratios the first by name is shown.
    for resource in sorted(of_resource):
        if lendable.get(resource, 0) > 0:
            this = Fraction(1000 * of_resource[resource], lendable[resource])
            if this > ratio:
                ratio, dominant = this, resource
    return Share(ratio, node.weight, dominant, frozenset(borrowed))


def _lendable(cohort: Node) -> dict[str, int]:
    if cohort.lendable is None:
        cohort.lendable = {}
        # The root has each flavor and resource of its tree, also those of which nothing is lent.
        for key in cohort.root.quota:
            more = cohort.lendable.get(key.resource, 0) + cohort.most(key)
            cohort.lendable[key.resource] = more
    return cohort.lendable
