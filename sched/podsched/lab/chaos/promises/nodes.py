"""What fits on a node: at every revision that binds a pod, the node has room for all it holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from podsched.api.node_selectors import NodeTerms, compile_node_selector
from podsched.api.objects import NodeSelector, Taint, Toleration
from podsched.api.tolerations import find_untolerated
from podsched.lab.chaos.history import History
from podsched.lab.chaos.promises.violation import Violation
from podsched.lab.chaos.records import NodeFact, NodeTermFact, PodFact
from podsched.lab.chaos.replay import CLAIMS, NODES, PODS, Moment, World, replay

CAPACITY = "no node beyond its capacity"
MISSING = "bound to nodes that exist"
PORTS = "no host port twice"
EXCLUSIVE = "no exclusive volume twice"
SUITED = "bound to nodes that suit"

#: Seconds for which a decision may be on its way: a node that suited when it was made may have
#: other labels or taints by the time the pod is bound, which nobody can prevent.
DECIDED_WITHIN = 30.0

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


def unsuited(pod: PodFact, name: str, node: NodeFact) -> str:
    """Return why a pod may not be bound to a node, by labels and taints, as text; "" if it may."""
    if not pod.selector.items() <= node.labels.items():
        return "does not match its node selector"
    if pod.affinity is not None and not _terms(pod.affinity).matches(node.labels, name):
        return "does not match its required node affinity"
    tolerations = [
        Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in pod.tolerations
    ]
    taints = [Taint(key=key, value=value, effect=effect) for key, value, effect in node.taints]
    taint = find_untolerated(taints, tolerations)
    return f"has the taint {taint.key}:{taint.effect}" if taint is not None else ""


def _terms(affinity: tuple[NodeTermFact, ...]) -> NodeTerms:
    selector = NodeSelector()
    for term in affinity:
        made = selector.node_selector_terms.add()
        for key, operator, values in term.expressions:
            made.match_expressions.add(key=key, operator=operator, values=values)
        for key, operator, values in term.fields:
            made.match_fields.add(key=key, operator=operator, values=values)
    return compile_node_selector(selector)


def suited(history: History) -> Iterator[Violation]:
    """Find pods bound to a node that has not suited them for ``DECIDED_WITHIN`` seconds.

    Pods that were created with a node were not decided on.
    """
    nodes = _PastNodes()
    for moment in replay(history):
        at, number = moment.revision.at, moment.revision.number
        nodes.follow(moment)
        for change in moment.pods:
            if not change.bound or change.before is None or change.after is None:
                continue
            name, pod = change.after.node, change.after
            reasons = [unsuited(pod, name, node) for node in nodes.lately(name, at)]
            if reasons and all(reasons):
                text = f"pod {change.key} was bound to node {name}, which {reasons[-1]}"
                yield Violation(SUITED, text, at, number, (NODES + name, PODS + change.key))


class _PastNodes:
    """What nodes were, and from when on; the latest last."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[float, NodeFact]]] = defaultdict(list)

    def follow(self, moment: Moment) -> None:
        for change in moment.revision.changes:
            if change.node is not None:
                versions = self._versions[change.key.removeprefix(NODES)]
                versions.append((moment.revision.at, change.node))

    def lately(self, name: str, at: float) -> list[NodeFact]:
        """Return what a node was at some time within the last seconds, and forget the rest."""
        versions = self._versions[name]
        while len(versions) > 1 and versions[1][0] < at - DECIDED_WITHIN:
            del versions[0]
        return [node for _, node in versions]
