"""Quota and usage in trees of cohorts, with ClusterQueues as leaves.

Each node of a tree has, per flavor and resource, a quota. The part above its lending limit is local
to the node. The rest of its quota, and its usage beyond the local part, count for its parent, too.
Invariant: the usage of a cohort is the sum of what its children use beyond their local parts. No
function recurses, so trees may have any depth.

Source: Kueue 0.20, pkg/cache/scheduler/resource_node.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """A resource in a flavor. Each has its own quota and usage."""

    flavor: str
    resource: str


#: Integers: thousandths of a CPU, units of all other resources (see ``amounts``).
Amounts = Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one node for one resource in one flavor."""

    nominal: int = 0
    borrowing_limit: int | None = None
    """The most that may be used above the nominal quota; None is no limit."""
    lending_limit: int | None = None
    """The most of it that others may use; None is all."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """A cohort: queues, and other cohorts, that share unused quota."""

    name: str
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: Fraction = Fraction(1)


NO_QUOTA = Quota()


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A ClusterQueue or a cohort in a tree of quotas.

    ``quota`` is the nominal quota of a queue, and of a cohort its own plus what its children lend.
    """

    name: str
    quotas: Mapping[FlavorResource, Quota]
    weight: Fraction
    is_cohort: bool = field(kw_only=True)
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    quota: dict[FlavorResource, int] = field(init=False)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    height: int = 0
    """0 for a queue, 1 for a cohort of queues, and so on."""
    depth: int = 0
    """The number of ancestors."""
    lendable: dict[str, int] | None = None
    """The amount of each resource that may be borrowed; ``shares`` computes it when needed."""
    # Computed once: both depend on quotas only, which never change.
    _local: dict[FlavorResource, int] = field(default_factory=dict)
    _potential: dict[FlavorResource, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.quota = {key: quota.nominal for key, quota in self.quotas.items()}

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
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def local(self, key: FlavorResource) -> int:
        """Return the part of the quota that the node does not lend."""
        known = self._local.get(key)
        if known is None:
            limit = self.quotas.get(key, NO_QUOTA).lending_limit
            known = 0 if limit is None else max(0, self.quota.get(key, 0) - limit)
            self._local[key] = known
        return known

    def local_available(self, key: FlavorResource) -> int:
        """Return the unused amount of the part that the node does not lend."""
        return max(0, self.local(key) - self.usage.get(key, 0))

    def available(self, key: FlavorResource) -> int:
        """Return the amount that may be used in addition; below 0 for a cohort that is overused.

        Source: ``available`` in Kueue's resource_node.go, without recursion.
        """
        line = [self, *self.ancestors]
        top = line[-1]
        free = top.quota.get(key, 0) - top.usage.get(key, 0)
        # From the root down. A borrowing limit bounds what comes from above, not the node's local
        # part. An overused cohort has less than 0, which its children lack: no clipping on the way.
        for node in line[-2::-1]:
            limit = node.quotas.get(key, NO_QUOTA).borrowing_limit
            if limit is not None:
                local = node.local(key)
                lent = node.quota.get(key, 0) - local
                free = min(free, lent - max(0, node.usage.get(key, 0) - local) + limit)
            free += node.local_available(key)
        return free if self.is_cohort else max(0, free)

    def potential_available(self, key: FlavorResource) -> int:
        """Return the most that the node could use if all other usage were 0.

        Source: ``potentialAvailable`` in Kueue's resource_node.go, without recursion.
        """
        line = [self]
        while key not in line[-1]._potential and line[-1].parent is not None:
            line.append(line[-1].parent)
        top = line.pop()
        most = top._potential.setdefault(key, top.quota.get(key, 0))
        for node in reversed(line):
            most += node.local(key)
            limit = node.quotas.get(key, NO_QUOTA).borrowing_limit
            if limit is not None:
                most = min(most, node.quota.get(key, 0) + limit)
            node._potential[key] = most
        return most

    def add(self, key: FlavorResource, amount: int) -> None:
        """Add an amount to the usage here, and to the ancestors as far as it is visible there."""
        node: Node | None = self
        while node is not None and amount > 0:
            # Computed before the amount is added: the parent sees what exceeds the local part.
            visible = amount - node.local_available(key)
            node.usage[key] = node.usage.get(key, 0) + amount
            node, amount = node.parent, visible

    def remove(self, key: FlavorResource, amount: int) -> None:
        """Subtract an amount from the usage here, and from the ancestors that ``add`` added to."""
        node: Node | None = self
        while node is not None and amount > 0:
            # Computed before the amount is subtracted: usage beyond the local part goes first.
            above = node.usage.get(key, 0) - node.local(key)
            node.usage[key] = node.usage.get(key, 0) - amount
            node, amount = node.parent, min(amount, above)

    def borrowed(self, key: FlavorResource) -> int:
        """Return how much of the usage exceeds the quota; 0 for a root, which borrows of none."""
        if self.parent is None:
            return 0
        return max(0, self.usage.get(key, 0) - self.quota.get(key, 0))

    def borrows(self, key: FlavorResource, more: int = 0) -> bool:
        """Whether the usage plus an amount exceeds the quota."""
        return self.quota.get(key, 0) < self.usage.get(key, 0) + more


def path_of(node: Node) -> str:
    """Return the names from the root down to a node: "/root/team/queue"."""
    return "/" + "/".join([*[above.name for above in node.ancestors][::-1], node.name])


def borrowing_level(node: Node, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the height of the lowest subtree in which an amount needs no borrowing.

    The height is 0 for the queue itself, and the root's height if the whole tree is too small.
    The second value is whether the amount could be reclaimed from outside of that subtree.
    """
    if node.parent is None or not node.borrows(key, amount):
        return 0, node.parent is not None
    while node.parent is not None:
        # As ``Node.add``: a node's parent sees only what exceeds the node's local part.
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


def build_forest(cohorts: Iterable[Cohort], queues: Iterable[tuple[Node, str | None]]) -> Forest:
    """Return the trees of cohorts and queues; ``queues``: each with the name of its cohort."""
    nodes = list(queues)
    forest = Forest({node.name: node for node, _ in nodes})
    parents: dict[str, str | None] = {}
    for cohort in cohorts:
        forest.cohorts[cohort.name] = Node(
            cohort.name, cohort.quotas, cohort.weight, is_cohort=True
        )
        parents[cohort.name] = cohort.parent
    for name in [*parents.values(), *(parent for _, parent in nodes)]:
        # As in Kueue, a cohort that is only named exists, with no quota and no limits.
        if name is not None and name not in forest.cohorts:
            forest.cohorts[name] = Node(name, {}, Fraction(1), is_cohort=True)
            parents[name] = None
    cyclic = _in_cycles(parents)
    for name, parent in parents.items():
        if parent is not None and name not in cyclic:
            _link(forest.cohorts[name], forest.cohorts[parent])
    lost = set()
    for node, parent in nodes:
        if parent in cyclic:
            lost.add(node.name)
        elif parent is not None:
            _link(node, forest.cohorts[parent])
    forest.cyclic = frozenset(lost)
    _sum_up(node for name, node in forest.cohorts.items() if name not in cyclic)
    return forest


def _link(child: Node, parent: Node) -> None:
    child.parent = parent
    parent.children.append(child)


def _in_cycles(parents: Mapping[str, str | None]) -> set[str]:
    """Return the cohorts that are their own ancestors, or below such a cohort."""
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
    # From the leaves up, so that a node's quota is complete before ``local`` reads and caches it.
    for node in reversed(line):
        if node.parent is not None:
            node.parent.height = max(node.parent.height, node.height + 1)
            for key, quota in node.quota.items():
                lent = quota - node.local(key)
                node.parent.quota[key] = node.parent.quota.get(key, 0) + lent
