"""Room on nodes: at every revision that binds a pod, the node has room for all its pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from podsched.api.objects import Node, Pod
from podsched.app.stored_state import over_capacity
from podsched.lab.chaos.history import (
    CLAIMS,
    NODES,
    PODS,
    History,
    Moment,
    Violation,
    World,
    node_of,
    replay,
)
from podsched.lab.placement import port_conflict, unsuited

CAPACITY = "no node beyond its capacity"
MISSING = "bound to nodes that exist"
PORTS = "no host port twice"
EXCLUSIVE = "no exclusive volume twice"
SUITED = "bound to nodes that suit"

#: Max seconds between a decision and its binding. A node that suited the pod at the decision may
#: have other labels or taints at the binding; that cannot be prevented.
DECIDED_WITHIN = 30.0


def _bound_to(history: History) -> Iterator[tuple[Moment, str]]:
    """Yield each revision that binds pods with the names of their nodes, one at a time."""
    for moment in replay(history):
        for name in sorted({node_of(change.after) for change in moment.pods if change.bound}):
            yield moment, name


def capacity(history: History) -> Iterator[Violation]:
    """Find bindings that exceed a node's capacity, or name a node that does not exist."""
    for moment, name in _bound_to(history):
        pods = moment.world.on_node[name]
        keys = (NODES + name, *(PODS + key for key in pods))
        node = moment.world.nodes.get(name)
        if node is None:
            text = f"a pod was bound to node {name}, which does not exist"
            yield moment.violation(MISSING, text, *keys)
        elif excess := over_capacity(node, pods):
            text = f"the pods on node {name} request {excess}"
            yield moment.violation(CAPACITY, text, *keys)


def host_ports(history: History) -> Iterator[Violation]:
    """Find bindings that make two pods share a host port."""
    for moment, name in _bound_to(history):
        if conflict := port_conflict(moment.world.on_node[name]):
            yield moment.violation(PORTS, f"on node {name} {conflict}", NODES + name)


def exclusive_volumes(history: History) -> Iterator[Violation]:
    """Find bindings that make two pods use a ReadWriteOncePod claim at the same time."""
    for moment in replay(history):
        for change in moment.pods:
            if not change.bound or change.after is None:
                continue
            namespace = change.key.partition("/")[0]
            for claim in _claims(change.after):
                users = _users(moment.world, namespace, claim)
                if len(users) > 1:
                    text = f"pods {' and '.join(users)} use claim {namespace}/{claim}"
                    keys = (f"{CLAIMS}{namespace}/{claim}", *(PODS + user for user in users))
                    yield moment.violation(EXCLUSIVE, text, *keys)


def _users(world: World, namespace: str, claim: str) -> list[str]:
    """Return the pods on nodes that use an exclusive claim; none if it is not exclusive."""
    found = world.claims.get(f"{namespace}/{claim}")
    if found is None or "ReadWriteOncePod" not in found.spec.access_modes:
        return []
    return sorted(
        key
        for pods in world.on_node.values()
        for key, pod in pods.items()
        if key.startswith(f"{namespace}/") and claim in _claims(pod)
    )


def _claims(pod: Pod) -> list[str]:
    names = (volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes)
    return [name for name in names if name]


def suited(history: History) -> Iterator[Violation]:
    """Find pods bound to a node that was unsuitable for the last ``DECIDED_WITHIN`` seconds.

    Pods that were created with a node are skipped.
    """
    nodes = _PastNodes()
    for moment in replay(history):
        nodes.follow(moment)
        for change in moment.pods:
            if not change.bound or change.before is None or change.after is None:
                continue
            pod, name = change.after, node_of(change.after)
            reasons = [unsuited(pod, node) for node in nodes.lately(name, moment.revision.at)]
            if reasons and all(reasons):
                text = f"pod {change.key} was bound to node {name}, which {reasons[-1]}"
                yield moment.violation(SUITED, text, NODES + name, PODS + change.key)


class _PastNodes:
    """Earlier versions of nodes with their times; the latest last."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[float, Node]]] = defaultdict(list)

    def follow(self, moment: Moment) -> None:
        for change in moment.revision.changes:
            if isinstance(change.object, Node):
                versions = self._versions[change.key.removeprefix(NODES)]
                versions.append((moment.revision.at, change.object))

    def lately(self, name: str, at: float) -> list[Node]:
        """Return the versions of a node within the last seconds, and drop older ones."""
        versions = self._versions[name]
        while len(versions) > 1 and versions[1][0] < at - DECIDED_WITHIN:
            del versions[0]
        return [node for _, node in versions]
