"""Check whether pods may be on their nodes, with a simple implementation of the rules.

It is independent of the plugins, because it checks their results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from podsched.api.host_ports import ANY_ADDRESS, host_ports
from podsched.api.node_selectors import compile_node_selector
from podsched.api.objects import Node, Pod, Taint
from podsched.api.tolerations import NO_SCHEDULE, TAINT_UNSCHEDULABLE, find_untolerated

_REQUIRED = "required_during_scheduling_ignored_during_execution"


def port_conflict(pods: Mapping[str, Pod]) -> str:
    """Return two pods that share a host port, as text; "" if there are none."""
    taken: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    for key, pod in pods.items():
        for address, protocol, number in host_ports(pod.spec):
            users = taken[protocol, number]
            for other, user in users:
                if user != key and (ANY_ADDRESS in (other, address) or other == address):
                    return f"{user} and {key} share {number}/{protocol}"
            users.append((address, key))
    return ""


def taints_of(node: Node) -> list[Taint]:
    """Return a node's taints, including the taint of an unschedulable node."""
    cordon = [Taint(key=TAINT_UNSCHEDULABLE, effect=NO_SCHEDULE)] if node.spec.unschedulable else []
    return [*cordon, *node.spec.taints]


def selects(pod: Pod, node: Node) -> str:
    """Return why a pod's spec does not select a node, as text; "" if it does."""
    labels = dict(node.metadata.labels)
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return "does not match its node selector"
    affinity = pod.spec.affinity.node_affinity
    if affinity.HasField(_REQUIRED):
        terms = compile_node_selector(getattr(affinity, _REQUIRED))
        if not terms.matches(labels, node.metadata.name):
            return "does not match its required node affinity"
    return ""


def unsuited(pod: Pod, node: Node) -> str:
    """Return why a pod may not be bound to a node, by labels and taints, as text; "" if it may."""
    if why := selects(pod, node):
        return why
    taint = find_untolerated(taints_of(node), pod.spec.tolerations)
    return f"has the taint {taint.key}:{taint.effect}" if taint is not None else ""
