"""Check the result of a workload: no bound pod violates a constraint.

This is a simple implementation of the rules, independent of the plugins, for the stored objects at
the end of a workload: existing nodes, capacity, host ports, node selectors, node affinity, taints,
required pod (anti-)affinity and DoNotSchedule spreading. Affinity and spreading hold only at the
moment of a decision, so they are checked only if no pod was deleted. Non-goals: terms with a
namespaceSelector, and whether a pod could be elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from podsched.api import quantity
from podsched.api.conditions import is_finished
from podsched.api.device_claims import exclusive_devices
from podsched.api.objects import (
    ClusterQueue,
    LocalQueue,
    Node,
    Pod,
    PodAffinityTerm,
    PodGroup,
    ResourceClaim,
    TopologySpreadConstraint,
)
from podsched.api.objects import object_key as _key
from podsched.api.pod_groups import group_key
from podsched.api.queue_labels import QUEUE_NAME
from podsched.api.resources import pod_requests
from podsched.api.selectors import Selector, compile_selector
from podsched.app.stored_state import over_capacity
from podsched.lab.placement import port_conflict, selects, unsuited
from podsched.lib.counted import counted
from podsched.lib.groups import lists_by_key

#: Violations of one kind that are reported; a wrong result tends to have thousands.
MAX_REPORTED = 5


def unbound(expected: Collection[str], bound: Container[str]) -> list[str]:
    """Return how many of the expected pods were not bound, as a line; nothing if all were."""
    missing = sum(key not in bound for key in expected)
    return [f"{missing:,} of {len(expected):,} pods were not bound"] if missing else []


def violations(nodes: Iterable[Node], pods: Iterable[Pod], *, deleted: bool = False) -> list[str]:
    """Return the violations, one per line: the first five, and the number of further ones.

    ``deleted``: pods have been deleted meanwhile.
    """
    by_name = {node.metadata.name: node for node in nodes}
    on_node: dict[str, dict[str, Pod]] = defaultdict(dict)
    for pod in pods:
        if pod.spec.node_name and not is_finished(pod):
            on_node[pod.spec.node_name][_key(pod)] = pod
    found = list(_misplaced(by_name, on_node))
    placed = [pod for name in on_node.keys() & by_name.keys() for pod in on_node[name].values()]
    state = _Placed(by_name, placed)
    found += state.anti_affinity_violations()
    if not deleted:
        found += state.affinity_violations()
        found += state.spread_violations()
    return _shortened(found)


def claim_violations(claims: Iterable[ResourceClaim], pods: Iterable[Pod]) -> list[str]:
    """Return devices that several claims have, and bound pods that no claim is reserved for."""
    owners: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    reserved: set[str] = set()
    for claim in claims:
        reserved.update(consumer.uid for consumer in claim.status.reserved_for)
        for device in exclusive_devices(claim):
            owners[device].append(claim.metadata.name)
    found = [
        f"device {'/'.join(device)} belongs to the claims {', '.join(names)}"
        for device, names in owners.items()
        if len(names) > 1
    ]
    found += [
        f"pod {_key(pod)} is bound, but no claim is reserved for it"
        for pod in pods
        if pod.spec.resource_claims
        and pod.spec.node_name
        and not is_finished(pod)
        and pod.metadata.uid not in reserved
    ]
    return _shortened(found)


def quota_violations(
    queues: Iterable[ClusterQueue],
    local_queues: Iterable[LocalQueue],
    groups: Iterable[PodGroup],
    pods: Iterable[Pod],
) -> list[str]:
    """Return queues, and cohorts of queues, whose bound pods use more than may be used.

    Of limits it knows only that of borrowing, and neither quotas nor parents of cohorts. Flavors
    are summed.
    """
    used = _quota_used(local_queues, groups, pods)
    nominal: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    together: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    found = []
    for one in queues:
        name, cohort = one.metadata.name, one.spec.cohort_name
        for flavors in (group.flavors for group in one.spec.resource_groups):
            most: dict[str, Fraction] = defaultdict(Fraction)
            for quota in (quota for flavor in flavors for quota in flavor.resources):
                most[quota.name] += quantity.parse(quota.nominal_quota)
                nominal[cohort, quota.name] += quantity.parse(quota.nominal_quota)
                if quota.borrowing_limit:
                    most[quota.name] += quantity.parse(quota.borrowing_limit)
                elif cohort:
                    most[quota.name] = Fraction(10**30)
            for resource, limit in most.items():
                together[cohort, resource] += used[name, resource]
                if used[name, resource] > limit:
                    found.append(f"ClusterQueue {name} uses too much {resource}")
    found += [
        f"cohort {cohort} uses {float(amount):g} of {float(nominal[cohort, resource]):g} {resource}"
        for (cohort, resource), amount in together.items()
        if cohort and amount > nominal[cohort, resource]
    ]
    return _shortened(found)


def _quota_used(
    local_queues: Iterable[LocalQueue], groups: Iterable[PodGroup], pods: Iterable[Pod]
) -> Mapping[tuple[str, str], Fraction]:
    """Return what bound pods request, by ClusterQueue and resource."""
    leads_to = {_key(one): one.spec.cluster_queue for one in local_queues}
    joined = {_key(one): one.metadata.labels.get(QUEUE_NAME, "") for one in groups}
    used: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for pod in pods:
        name = joined.get(group_key(pod)) or pod.metadata.labels.get(QUEUE_NAME, "")
        queue = leads_to.get(f"{pod.metadata.namespace}/{name}")
        if queue is not None and pod.spec.node_name and not is_finished(pod):
            for resource, amount in pod_requests(pod).items():
                used[queue, resource] += amount
    return used


def _shortened(found: list[str]) -> list[str]:
    more = len(found) - MAX_REPORTED
    return found if more <= 0 else [*found[:MAX_REPORTED], f"{more:,} more of this kind"]


def _misplaced(
    nodes: Mapping[str, Node], on_node: Mapping[str, Mapping[str, Pod]]
) -> Iterator[str]:
    for name, pods in on_node.items():
        node = nodes.get(name)
        if node is None:
            yield from (f"pod {key} is bound to node {name}, which does not exist" for key in pods)
            continue
        if excess := over_capacity(node, pods):
            yield f"the pods on node {name} request {excess}"
        if conflict := port_conflict(pods):
            yield f"on node {name} {conflict}"
        for key, pod in pods.items():
            if why := unsuited(pod, node):
                yield f"pod {key} is bound to node {name}, which {why}"


@dataclass(frozen=True, slots=True)
class _Term:
    """Pods of some namespaces that a selector matches, over a topology."""

    selector: Selector
    namespaces: frozenset[str]
    topology_key: str


@dataclass(frozen=True, slots=True)
class _Spread:
    """A DoNotSchedule constraint and the nodes that count, as the pod's spec selects them."""

    term: _Term
    max_skew: int
    sample: int
    """Index of a pod whose node selector and affinity say which nodes count."""


class _Placed:
    """Pods on nodes, by topology domain."""

    def __init__(self, nodes: Mapping[str, Node], pods: Sequence[Pod]) -> None:
        self._nodes = nodes
        self._pods = pods
        self._by_label = lists_by_key(
            (label, pod) for pod in pods for label in pod.metadata.labels.items()
        )

    def anti_affinity_violations(self) -> Iterator[str]:
        """Yield pods whose required anti-affinity is violated in their domain."""
        for term, holders in self._holders("pod_anti_affinity").items():
            matching = self._matching(term)
            counts = self._counts(term, matching.values())
            for pod in holders:
                domain = self._domain(pod, term.topology_key)
                others = counts[domain] - (_key(pod) in matching)
                if domain is not None and others > 0:
                    yield (
                        f"pod {_key(pod)} has anti-affinity to {counted(others, 'pod')} in "
                        f"{term.topology_key}={domain}"
                    )

    def affinity_violations(self) -> Iterator[str]:
        """Yield pods whose domain has no pod of their required affinity."""
        for term, holders in self._holders("pod_affinity").items():
            counts = self._counts(term, self._matching(term).values())
            for pod in holders:
                domain = self._domain(pod, term.topology_key)
                if domain is None or not counts[domain]:
                    yield (
                        f"pod {_key(pod)} has affinity to pods in its {term.topology_key}, where "
                        "none are"
                    )

    def spread_violations(self) -> Iterator[str]:
        """Yield violated spreading constraints, if all pods that they count have them."""
        holders: dict[_Spread, set[str]] = defaultdict(set)
        samples: dict[bytes, int] = {}
        for at, pod in enumerate(self._pods):
            for constraint in pod.spec.topology_spread_constraints:
                if constraint.when_unsatisfiable == "DoNotSchedule":
                    spread = _spread(pod, constraint, samples, at)
                    holders[spread].add(_key(pod))
        for spread, obeying in holders.items():
            matching = self._matching(spread.term)
            if matching.keys() != obeying:
                continue
            counts = self._counts(spread.term, matching.values())
            sample, key = self._pods[spread.sample], spread.term.topology_key
            domains = {
                node.metadata.labels[key]
                for node in self._nodes.values()
                if key in node.metadata.labels and not selects(sample, node)
            }
            numbers = [counts[domain] for domain in domains]
            skew = max(numbers, default=0) - min(numbers, default=0)
            if skew > spread.max_skew:
                yield (
                    f"pods like {_key(sample)} are spread over {key} with a skew of {skew}, more "
                    f"than {spread.max_skew}"
                )

    def _holders(self, kind: str) -> dict[_Term, list[Pod]]:
        holders: dict[_Term, list[Pod]] = defaultdict(list)
        for pod in self._pods:
            affinity = getattr(pod.spec.affinity, kind)
            for term in affinity.required_during_scheduling_ignored_during_execution:
                if not term.HasField("namespace_selector"):
                    holders[_term(pod, term)].append(pod)
        return holders

    def _matching(self, term: _Term) -> dict[str, Pod]:
        """Return the pods that a term matches, by key."""
        return {
            _key(pod): pod
            for pod in self._candidates(term.selector)
            if pod.metadata.namespace in term.namespaces
            and term.selector.matches(pod.metadata.labels)
        }

    def _candidates(self, selector: Selector) -> Iterable[Pod]:
        """Return the pods with one of the labels that a selector asks for."""
        for wanted in selector.requirements or ():
            if wanted.operator == "In":
                found = [self._by_label.get((wanted.key, value), []) for value in wanted.values]
                return [pod for pods in found for pod in pods]
        return self._pods

    def _counts(self, term: _Term, pods: Iterable[Pod]) -> Counter[str | None]:
        return Counter(self._domain(pod, term.topology_key) for pod in pods)

    def _domain(self, pod: Pod, topology_key: str) -> str | None:
        return self._nodes[pod.spec.node_name].metadata.labels.get(topology_key)


def _selector(of: PodAffinityTerm | TopologySpreadConstraint) -> Selector:
    return compile_selector(of.label_selector if of.HasField("label_selector") else None)


def _term(pod: Pod, term: PodAffinityTerm) -> _Term:
    return _Term(
        _selector(term), frozenset(term.namespaces or (pod.metadata.namespace,)), term.topology_key
    )


def _spread(
    pod: Pod, constraint: TopologySpreadConstraint, samples: dict[bytes, int], at: int
) -> _Spread:
    namespaces = frozenset((pod.metadata.namespace,))
    term = _Term(_selector(constraint), namespaces, constraint.topology_key)
    chosen = Pod()
    chosen.spec.node_selector.update(pod.spec.node_selector)
    chosen.spec.affinity.node_affinity.CopyFrom(pod.spec.affinity.node_affinity)
    content = chosen.SerializeToString(deterministic=True)
    return _Spread(term, constraint.max_skew, samples.setdefault(content, at))
