"""What fits on a node: at every revision that binds a pod, the node has room for all it holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from podsched.chaos.history import History
from podsched.chaos.promises.violation import Violation
from podsched.chaos.records import NodeFact, PodFact
from podsched.chaos.replay import CLAIMS, NODES, PODS, Moment, World, replay

CAPACITY = "no node beyond its capacity"
MISSING = "bound to nodes that exist"
PORTS = "no host port twice"
EXCLUSIVE = "no exclusive volume twice"

_ANY = "0.0.0.0"


def over_capacity(node: NodeFact, pods: Mapping[str, PodFact]) -> str:
    """Return the first resource that pods request more of than a node has, as text; "" if none."""
    used: dict[str, Fraction] = defaultdict(Fraction)
    for pod in pods.values():
        for name, amount in pod.requests.items():
            used[name] += Fraction(amount)
    for name, total in used.items():
        room = Fraction(node.allocatable.get(name, "0"))
        if total > room:
            return f"{float(total):g} of {float(room):g} {name}"
    return ""


def port_conflict(pods: Mapping[str, PodFact]) -> str:
    """Return two pods that share a host port, as text; "" if none do."""
    taken: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for key, pod in pods.items():
        for address, protocol, number in pod.ports:
            users = taken[protocol, number]
            for other, user in users:
                if user != key and (_ANY in (other, address) or other == address):
                    return f"{user} and {key} share {number}/{protocol}"
            users.append((address, key))
    return ""


def _nodes_bound(moment: Moment) -> set[str]:
    return {c.after.node for c in moment.pods if c.bound and c.after is not None}


def capacity(history: History) -> Iterator[Violation]:
    """Find bindings that make a node hold more than it has, or name a node that is not there."""
    for moment in replay(history):
        at, number, world = moment.revision.at, moment.revision.number, moment.world
        for name in sorted(_nodes_bound(moment)):
            pods = world.on_node[name]
            keys = (NODES + name, *(PODS + key for key in pods))
            node = world.nodes.get(name)
            if node is None:
                text = f"a pod was bound to node {name}, which does not exist"
                yield Violation(MISSING, text, at, number, keys)
            elif excess := over_capacity(node, pods):
                text = f"the pods on node {name} request {excess}"
                yield Violation(CAPACITY, text, at, number, keys)


def host_ports(history: History) -> Iterator[Violation]:
    """Find bindings that make two pods share a host port."""
    for moment in replay(history):
        for name in sorted(_nodes_bound(moment)):
            if conflict := port_conflict(moment.world.on_node[name]):
                text = f"on node {name} {conflict}"
                where = (moment.revision.at, moment.revision.number)
                yield Violation(PORTS, text, *where, (NODES + name,))


def exclusive_volumes(history: History) -> Iterator[Violation]:
    """Find bindings that make two pods use a ReadWriteOncePod claim at a time."""
    for moment in replay(history):
        for change in moment.pods:
            if not change.bound or change.after is None:
                continue
            namespace = change.key.partition("/")[0]
            for claim in change.after.claims:
                users = _users(moment.world, namespace, claim)
                if len(users) > 1:
                    text = f"pods {' and '.join(users)} use claim {namespace}/{claim}"
                    keys = (f"{CLAIMS}{namespace}/{claim}", *(PODS + user for user in users))
                    where = (moment.revision.at, moment.revision.number)
                    yield Violation(EXCLUSIVE, text, *where, keys)


def _users(world: World, namespace: str, claim: str) -> list[str]:
    """Return the pods on nodes that use an exclusive claim; none if it is not exclusive."""
    fact = world.claims.get(f"{namespace}/{claim}")
    if fact is None or not fact.exclusive:
        return []
    return sorted(
        key
        for pods in world.on_node.values()
        for key, pod in pods.items()
        if key.startswith(f"{namespace}/") and claim in pod.claims
    )
