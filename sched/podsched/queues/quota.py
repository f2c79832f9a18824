"""Quota in trees of cohorts: what a ClusterQueue may use, and what is used.

Each node of a tree has, per flavor and resource, a quota. What a node does not lend (above its
lending limit) is local to it; everything else, and every use beyond the local part, is visible to
its parent. Invariant: the usage of a cohort is the sum of what its children use beyond their local
part. No function recurses: a tree may be as deep as it likes.

Source: Kueue 0.20, pkg/cache/scheduler/resource_node.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """A resource in a flavor: what quota is counted by."""

    flavor: str
    resource: str


#: Integers: thousandths of a CPU, units of all other resources (see ``amounts``).
Amounts = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one node for one resource in one flavor."""

    nominal: int = 0
    borrowing_limit: int | None = None
    """The most to be used above the nominal quota; None is no limit."""
    lending_limit: int | None = None
    """The most that others may use; None lends all."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort; a name without an object is a cohort with no quota of its own."""

    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: Fraction = Fraction(1)


NO_QUOTA = Quota()


class Node:
    """A ClusterQueue or a cohort in a tree of quotas.

    ``quota`` is the nominal quota of a queue, and of a cohort its own plus what its children lend.
    """

    __slots__ = (
        "_local",
        "_most",
        "children",
        "depth",
        "height",
        "is_cohort",
        "lendable",
        "name",
        "parent",
        "quota",
        "quotas",
        "usage",
        "weight",
    )

    def __init__(
        self,
        name: str,
        quotas: Mapping[FlavorResource, Quota],
        weight: Fraction,
        *,
        is_cohort: bool,
    ) -> None:
        self.name = name
        self.quotas = quotas
        self.weight = weight
        self.is_cohort = is_cohort
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.quota = {key: quota.nominal for key, quota in quotas.items()}
        self.usage: dict[FlavorResource, int] = {}
        self.height = 0
        """0 is a queue, 1 a cohort of queues, and so on."""
        self.depth = 0
        """How many ancestors the node has."""
        self.lendable: dict[str, int] | None = None
        """What may be borrowed of each resource, for ``shares``; counted once it is needed."""
        # Kept once counted: both depend on quotas only, which stay as planted.
        self._local: dict[FlavorResource, int] = {}
        self._most: dict[FlavorResource, int] = {}

    def __repr__(self) -> str:
        return f"<{'Cohort' if self.is_cohort else 'ClusterQueue'} {self.name}>"

    @property
    def ancestors(self) -> Iterator[Node]:
        """The cohorts above, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> Node:
        """The top of the tree."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def path(self) -> str:
        """The names from the root down to the node: "/root/team/queue"."""
        return "/" + "/".join([*[node.name for node in self.ancestors][::-1], self.name])

    def local(self, key: FlavorResource) -> int:
        """Return the part of the quota that the node does not lend."""
        known = self._local.get(key)
        if known is None:
            limit = self.quotas.get(key, NO_QUOTA).lending_limit
            known = 0 if limit is None else max(0, self.quota.get(key, 0) - limit)
            self._local[key] = known
        return known

    def local_available(self, key: FlavorResource) -> int:
        """Return what is unused of the part that the node does not lend."""
        return max(0, self.local(key) - self.usage.get(key, 0))

    def available(self, key: FlavorResource) -> int:
        """Return what may be used in addition; below 0 for a cohort that is overused."""
        line = [self, *self.ancestors]
        top = line[-1]
        free = top.quota.get(key, 0) - top.usage.get(key, 0)
        # From the root down. A borrowing limit bounds what comes from above, not the node's local
        # part; and what a cohort overuses is missing below, so nothing is cut off at 0 on the way.
        for node in line[-2::-1]:
            limit = node.quotas.get(key, NO_QUOTA).borrowing_limit
            if limit is not None:
                local = node.local(key)
                lent = node.quota.get(key, 0) - local
                free = min(free, lent - max(0, node.usage.get(key, 0) - local) + limit)
            free += node.local_available(key)
        return free if self.is_cohort else max(0, free)

    def most(self, key: FlavorResource) -> int:
        """Return what could be used if nothing were used by others."""
        line = [self]
        while key not in line[-1]._most and line[-1].parent is not None:
            line.append(line[-1].parent)
        top = line.pop()
        most = top._most.setdefault(key, top.quota.get(key, 0))
        for node in reversed(line):
            most += node.local(key)
            limit = node.quotas.get(key, NO_QUOTA).borrowing_limit
            if limit is not None:
                most = min(most, node.quota.get(key, 0) + limit)
            node._most[key] = most
        return most

    def add(self, key: FlavorResource, amount: int) -> None:
        """Count an amount as used, here and above as far as it is visible."""
        node: Node | None = self
        while node is not None and amount > 0:
            # Read before the amount is counted: what exceeds the local part is the parent's, too.
            visible = amount - node.local_available(key)
            node.usage[key] = node.usage.get(key, 0) + amount
            node, amount = node.parent, visible

    def remove(self, key: FlavorResource, amount: int) -> None:
        """Count an amount as no longer used."""
        node: Node | None = self
        while node is not None and amount > 0:
            # Read before the amount is taken off: what was counted above is taken back first.
            above = node.usage.get(key, 0) - node.local(key)
            node.usage[key] = node.usage.get(key, 0) - amount
            node, amount = node.parent, min(amount, above)

    def borrowed(self, key: FlavorResource) -> int:
        """Return how much of the usage exceeds the quota; 0 for a root, which borrows of none."""
        if self.parent is None:
            return 0
        return max(0, self.usage.get(key, 0) - self.quota.get(key, 0))

    def borrows(self, key: FlavorResource, more: int = 0) -> bool:
        """Whether the usage, with an amount more, exceeds the quota."""
        return self.quota.get(key, 0) < self.usage.get(key, 0) + more

    def borrows_any(self, keys: Iterable[FlavorResource]) -> bool:
        """Whether the usage of one of the flavors and resources exceeds the quota."""
        return any(self.borrows(key) for key in keys)

    def borrowing_level(self, key: FlavorResource, amount: int) -> tuple[int, bool]:
        """Return the height of the lowest subtree in which an amount needs no borrowing.

        It is 0 for the queue itself, and the root's height if the whole tree is too small. The
        second value says whether that subtree is less than the tree, so that the amount can be
        reclaimed from outside.
        """
        if self.parent is None or not self.borrows(key, amount):
            return 0, self.parent is not None
        node: Node = self
        while node.parent is not None:
            # As ``add``: a node's parent sees only what exceeds the node's local part.
            amount -= node.local_available(key)
            node = node.parent
            if not node.borrows(key, amount):
                return node.height, node.parent is not None
        return node.height, False


@dataclass(slots=True)
class Forest:
    """All trees of cohorts, with the queues as leaves."""

    queues: dict[str, Node] = field(default_factory=dict)
    cohorts: dict[str, Node] = field(default_factory=dict)
    cyclic: frozenset[str] = frozenset()
    """Queues below cohorts that are their own ancestors: they admit nothing."""


def plant(cohorts: Iterable[Cohort], queues: Iterable[tuple[Node, str | None]]) -> Forest:
    """Return the trees of the cohorts and of the queues, given with the name of their cohort."""
    forest = Forest()
    parents: dict[str, str | None] = {}
    for cohort in cohorts:
        forest.cohorts[cohort.name] = Node(
            cohort.name, cohort.quotas, cohort.weight, is_cohort=True
        )
        parents[cohort.name] = cohort.parent
    of_queue = {}
    for node, parent in queues:
        forest.queues[node.name] = node
        of_queue[node.name] = parent
    for name in [*parents.values(), *of_queue.values()]:
        # As in Kueue, a cohort that is only named exists, with no quota and no limits.
        if name is not None and name not in forest.cohorts:
            forest.cohorts[name] = Node(name, {}, Fraction(1), is_cohort=True)
            parents[name] = None
    cyclic = _in_cycles(parents)
    for name, parent in parents.items():
        if parent is not None and name not in cyclic:
            _link(forest.cohorts[name], forest.cohorts[parent])
    lost = set()
    for name, parent in of_queue.items():
        if parent in cyclic:
            lost.add(name)
        elif parent is not None:
            _link(forest.queues[name], forest.cohorts[parent])
    forest.cyclic = frozenset(lost)
    _sum_up(node for name, node in forest.cohorts.items() if name not in cyclic)
    return forest


def _link(child: Node, parent: Node) -> None:
    child.parent = parent
    parent.children.append(child)


def _in_cycles(parents: Mapping[str, str | None]) -> set[str]:
    """Return the cohorts whose line of ancestors has no end."""
    sound: set[str] = set()
    cyclic: set[str] = set()
    for start in parents:
        line: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in sound and name not in cyclic and name not in line:
            line[name] = None
            name = parents[name]
        (sound if name is None or name in sound else cyclic).update(line)
    return cyclic


def _sum_up(cohorts: Iterable[Node]) -> None:
    """Set the depth, height and quota of all nodes, from the leaves up."""
    line = []
    stack = [node for node in cohorts if node.parent is None]
    while stack:
        node = stack.pop()
        line.append(node)
        for child in node.children:
            child.depth = node.depth + 1
        stack.extend(node.children)
    # A node is complete before its parent counts it; ``local`` keeps what it first returns.
    for node in reversed(line):
        if node.parent is not None:
            node.parent.height = max(node.parent.height, node.height + 1)
            for key, quota in node.quota.items():
                lent = quota - node.local(key)
                node.parent.quota[key] = node.parent.quota.get(key, 0) + lent
