"""The domains of nodes by level (block, rack, host), and how many pods fit into each.

Pods are counted singly, in slices (sets of pods that must be in one domain of some level), and
beside a leader (a pod with other requests in the same domain).

Source: Kueue 0.20, pkg/cache/scheduler/tas_flavor_snapshot.go and tas_topology_tree.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import Taint, Toleration
from podsched.api.selectors import Requirement
from podsched.api.tolerations import find_untolerated
from podsched.queues.objects import PODS

#: The number of pods that fit if a pod requests nothing of a resource.
_NO_BOUND = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A node in a topology."""

    labels: Mapping[str, str]
    free: Mapping[str, int]
    """Amounts that are allocatable and not used, by resource."""
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """The levels that the annotations of a pod template ask for.

    Without any, pods go wherever there is room.
    """

    required: str | None = None
    """The level of which one domain must take all pods."""
    preferred: str | None = None
    """The level of which one domain should take all pods: else one domain of a level above, else
    several domains of the widest level."""
    slices: tuple[tuple[str, int], ...] = ()
    """Levels and sizes of slices, the largest first: a slice's pods stay in one domain."""


@dataclass(frozen=True, slots=True)
class TopologyPods:
    """Pods with equal requests and constraints, which need domains."""

    name: str
    count: int
    requests: Mapping[str, int]
    """Amounts of one pod."""
    topology: TopologyRequest = TopologyRequest()
    group: str | None = None
    """Two pod sets of a group are a leader and its workers."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """The terms of the required node affinity, of which one must match."""
    tolerations: tuple[Toleration, ...] = ()


@dataclass(slots=True, eq=False)
class Domain:
    """A domain of a level, and how many pods fit into it.

    A domain of the lowest level has ``nodes``, any other has ``children``. ``pods`` and ``slices``
    fit without a leader, ``led_pods`` and ``led_slices`` beside ``leaders`` leaders.
    """

    values: tuple[str, ...]
    """The values of its labels, from the widest level to its own."""
    children: list[Domain] = field(default_factory=list)
    nodes: list[TopologyNode] = field(default_factory=list)
    pods: int = 0
    slices: int = 0
    led_pods: int = 0
    led_slices: int = 0
    leaders: int = 0
    level: int = field(init=False)

    def __post_init__(self) -> None:
        self.level = len(self.values) - 1

    def clear(self) -> None:
        self.pods = self.slices = self.led_pods = self.led_slices = self.leaders = 0

    @property
    def most_room(self) -> tuple[object, ...]:
        """Sort key: most slices first, then fewest pods, then names."""
        return -self.slices, self.pods, self.values

    @property
    def least_room(self) -> tuple[object, ...]:
        """Sort key: fewest slices first, then fewest pods, then names."""
        return self.slices, self.pods, self.values


@dataclass(slots=True)
class Exclusions:
    """Why lowest domains take no pods, for a message."""

    nodes: int = 0
    """All lowest domains. Kueue's message calls them nodes, although one may have several nodes."""
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> str:
        """The end of a message; "" if no domain is excluded."""
        if not self.reasons:
            return ""
        listed = sorted(f"{reason}: {count}" for reason, count in self.reasons.items())
        return f". Total nodes: {self.nodes}; excluded: {', '.join(listed)}"


class Topology:
    """The tree of the domains of some nodes, by the labels of its levels."""

    def __init__(self, name: str, levels: Sequence[str], nodes: Iterable[TopologyNode]) -> None:
        self.name = name
        self.levels = tuple(levels)
        self.of_hosts = self.levels[-1] == HOSTNAME
        """Whether a lowest domain is a single node: then labels and taints of nodes count."""
        self.domains: list[dict[tuple[str, ...], Domain]] = [{} for _ in self.levels]
        for node in nodes:
            # A node without one of the labels is in no domain.
            if all(level in node.labels for level in self.levels):
                self._add(node)

    def _add(self, node: TopologyNode) -> None:
        parent: Domain | None = None
        values = tuple(node.labels[level] for level in self.levels)
        for level, domains in enumerate(self.domains):
            key = values[: level + 1]
            if key not in domains:
                domains[key] = Domain(key)
                if parent is not None:
                    parent.children.append(domains[key])
            parent = domains[key]
        if parent is not None:
            parent.nodes.append(node)

    def count(
        self,
        pods: TopologyPods,
        leader: TopologyPods | None,
        slices: Mapping[int, int],
        used: Mapping[tuple[str, ...], Mapping[str, int]],
    ) -> Exclusions:
        """Set in every domain how many of the pods fit; return why some take none.

        ``slices``: the sizes of slices by index of the level; 1 for the lowest level if there are
        none. ``used``: amounts that other pods have been assigned, by lowest domain.
        """
        found = Exclusions()
        for domains in self.domains:
            for domain in domains.values():
                domain.clear()
        for domain in self.domains[-1].values():
            found.nodes += 1
            reason = _unsuitable(domain.nodes[0], pods) if self.of_hosts else None
            if reason is None:
                limit = _count_in(domain, pods, leader, used.get(domain.values, {}))
                reason = None if domain.pods else f'resource "{limit}"'
            if reason is not None:
                found.reasons[reason] += 1
        outer = min(slices)
        # From the lowest level up: a domain is the sum of its children.
        for domains in reversed(self.domains):
            for domain in domains.values():
                if domain.children:
                    _sum_up(domain, slices, with_leader=leader is not None)
                if domain.level == outer:
                    domain.slices = domain.pods // slices[outer]
                    domain.led_slices = domain.led_pods // slices[outer]
        return found


def _count_in(
    domain: Domain, pods: TopologyPods, leader: TopologyPods | None, used: Mapping[str, int]
) -> str:
    """Set how many pods fit into a lowest domain; return the resource that limits them."""
    free = _free(domain.nodes, used)
    domain.pods, limit = _fitting(pods.requests, free)
    if leader is not None and _fitting(leader.requests, free)[0]:
        domain.leaders = 1
        free.subtract(leader.requests)
        free[PODS] -= 1
    domain.led_pods = _fitting(pods.requests, free)[0]
    return limit


def _free(nodes: Iterable[TopologyNode], used: Mapping[str, int]) -> Counter[str]:
    free: Counter[str] = Counter()
    for node in nodes:
        free.update(node.free)
    free.subtract(used)
    return free


def _fitting(requests: Mapping[str, int], free: Mapping[str, int]) -> tuple[int, str]:
    """Return how many pods fit, and the resource that limits them."""
    # Every pod takes one of a node's ``pods``.
    wanted = {**requests, PODS: requests.get(PODS, 0) + 1}
    return min(
        (max(0, free.get(resource, 0) // amount) if amount else _NO_BOUND, resource)
        for resource, amount in wanted.items()
    )


def _unsuitable(node: TopologyNode, pods: TopologyPods) -> str | None:
    """Return why pods cannot be on a node, apart from its room; None if they can."""
    taint = find_untolerated(node.taints, pods.tolerations)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return f'taint "{taint.key}{value}:{taint.effect}"'
    if any(node.labels.get(key) != value for key, value in pods.node_selector.items()):
        return "nodeSelector"
    if pods.affinity and not any(
        all(requirement.matches(node.labels) for requirement in term) for term in pods.affinity
    ):
        return "affinity"
    return None


def _sum_up(domain: Domain, slices: Mapping[int, int], *, with_leader: bool) -> None:
    """Set the counts of a domain to the sums of its children.

    Beside a leader, they are less by what the leader costs in the child where it costs least.
    """
    inner = slices.get(domain.level + 1, 1) if domain.level + 1 > min(slices) else 1
    pods_cost: list[int] = []
    slices_cost: list[int] = []
    for child in domain.children:
        # A slice is not split between children, so only whole slices of a child count.
        pods, led_pods = child.pods // inner * inner, child.led_pods // inner * inner
        domain.pods += pods
        domain.slices += child.slices
        domain.leaders = max(domain.leaders, child.leaders)
        if child.leaders or not with_leader:
            pods_cost.append(pods - led_pods)
            slices_cost.append(child.slices - child.led_slices)
    if pods_cost:
        domain.led_pods = domain.pods - min(pods_cost)
        domain.led_slices = domain.slices - min(slices_cost)
