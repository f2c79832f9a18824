"""After the last fault the system recovers, and it ends without leftovers."""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.conditions import is_node_ready, is_terminating
from podsched.api.objects import Node, Pod
from podsched.api.tolerations import HARD_EFFECTS
from podsched.app.stored_state import over_capacity
from podsched.cache.pod_class import DEFAULT_SCHEDULER_NAME
from podsched.lab.chaos.history import PODS, History, Violation, World
from podsched.lab.chaos.promises.lasting import Lasting, after_the_faults
from podsched.lab.placement import port_conflict, selects, taints_of
from podsched.lib.counted import counted

SCHEDULED = "a pod that fits is bound in time"
GONE = "a deleted pod is gone in time"
ASSUMED = "nothing left assumed"
LEFT = "no task or process left"
MENDED = "what was broken comes back"

#: Seconds of a history between two looks at the pods that wait.
LOOK_EVERY = 0.5


def recovered(history: History) -> Iterator[Violation]:
    """Find pods that fitted for long enough after the last fault, and were not bound.

    Only plain pods are checked, which depend only on capacity, host ports and node selector. Room
    of nominated pods of the same or a higher priority counts as taken.
    """
    waiting = Lasting(history.begin.within)
    for world, at in after_the_faults(history, LOOK_EVERY):
        keys = {world.uids[key]: key for key in world.pods if is_late(world, key)}
        for uid, seconds in waiting.too_long(keys, at):
            text = f"pod {keys[uid]} fits for {seconds:.1f} s and is not bound"
            yield Violation(SCHEDULED, text, at, 0, (PODS + keys[uid],))


def leaves(history: History) -> Iterator[Violation]:
    """Find pods that were still being deleted for long after the last fault."""
    leaving = Lasting(history.begin.within)
    for world, at in after_the_faults(history, LOOK_EVERY):
        keys = {world.uids[key]: key for key in leaving_pods(world)}
        for uid, seconds in leaving.too_long(keys, at):
            text = f"pod {keys[uid]} is being deleted for {seconds:.1f} s and is still there"
            yield Violation(GONE, text, at, 0, (PODS + keys[uid],))


def leaving_pods(world: World) -> Iterator[str]:
    """Yield the keys of the pods that are being deleted."""
    return (key for key, pod in world.pods.items() if is_terminating(pod))


def is_late(world: World, key: str) -> bool:
    """Return whether a plain pod is pending although it fits an open node now."""
    pod = world.pods[key]
    if pod.spec.node_name or is_terminating(pod) or not _is_plain(pod):
        return False
    return any(
        _is_open(node)
        and not selects(pod, node)
        and not over_capacity(node, held := {**_held(world, name, pod), key: pod})
        and not port_conflict(held)
        for name, node in world.nodes.items()
    )


def _is_plain(pod: Pod) -> bool:
    """Return whether only requests, ports and node selector decide where a pod fits."""
    spec = pod.spec
    constrained = spec.HasField("affinity") or spec.topology_spread_constraints
    needs_more = spec.volumes or spec.resource_claims
    held_back = spec.scheduling_gates or spec.scheduler_name != DEFAULT_SCHEDULER_NAME
    return not (constrained or needs_more or held_back or spec.scheduling_group.pod_group_name)


def _is_open(node: Node) -> bool:
    """Return whether a node takes pods without tolerations."""
    hard = any(taint.effect in HARD_EFFECTS for taint in taints_of(node))
    return is_node_ready(node.status) and not hard


def _held(world: World, node: str, pod: Pod) -> dict[str, Pod]:
    """Return the pods on a node, and those nominated to it that come before ``pod``."""
    nominated = {
        key: other
        for key, other in world.pods.items()
        if other.status.nominated_node_name == node
        and not other.spec.node_name
        and other.spec.priority >= pod.spec.priority
    }
    return {**world.on_node[node], **nominated}


def nothing_assumed(history: History) -> Iterator[Violation]:
    """Find replicas that still have assumed pods when nothing changes any more."""
    if history.settled is None:
        return
    for replica, pods in history.settled.assumed.items():
        if pods:
            text = f"{replica} still assumes {counted(pods, 'pod')} to be bound"
            yield Violation(ASSUMED, text, history.settled.at)


def comes_back(history: History) -> Iterator[Violation]:
    """Find faults after which a process did not recover."""
    for fault in history.faults:
        if fault.ends and fault.failed:
            yield Violation(MENDED, f"{fault.what}: {fault.failed}", fault.at)


def nothing_left(history: History) -> Iterator[Violation]:
    """Find processes that did not end cleanly, and what they left."""
    if history.end is None:
        return
    at = history.end.at
    for name, code in history.end.exit_codes.items():
        if code:
            yield Violation(LEFT, f"{name} ended with exit code {code}", at)
    for process in history.end.processes:
        yield Violation(LEFT, f"process {process} still runs", at)
    for task in history.end.tasks:
        yield Violation(LEFT, f'task "{task}" still runs', at)
    for line in history.end.complaints:
        yield Violation(LEFT, f"a log complains: {line}", at)
