"""Convert objects to the rows of the page.

Only fields named here leave the process; of containers, only the requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from podsched.api.conditions import POD_SCHEDULED, condition_of, is_finished, is_node_ready
from podsched.api.hollow_nodes import is_hollow
from podsched.api.objects import (
    Event,
    Node,
    Pod,
    PodCondition,
    joined_key,
    seconds_of,
    seconds_of_event,
)
from podsched.api.pod_groups import group_key
from podsched.api.resources import MEMORY, PODS, readable_allocatable, readable_requests
from podsched.api.tolerations import HARD_EFFECTS, TAINT_UNSCHEDULABLE
from podsched.cache.zones import zone_of

#: Max characters of a text in a list; details have all of it.
TEXT = 300
MIB = 1 << 20
#: Max sum of amounts that is sent: a browser counts no further, and JSON only to 64 bits.
MOST_AMOUNT: Final = (1 << 53) - 1
#: kube-scheduler's FitError, without what PostFilter adds.
_UNAVAILABLE = re.compile(
    r"\d+/\d+ nodes are available: (.*?)(?: [^.]*preemption: .*)?$", re.DOTALL
)
_COUNTED = re.compile(r", \d+ ")


#: Bits of a node's state. They are plain numbers, because each use of an ``IntFlag`` takes 5 µs.
NOT_READY: Final = 1
CORDONED: Final = 2
TAINTED: Final = 4
DELETED: Final = 8
HOLLOW: Final = 16


@dataclass(slots=True)
class NodeRow:
    """A node. allocatable: in the page's units, by resource."""

    name: str
    zone: str
    state: int
    allocatable: Mapping[str, int]

    @property
    def usable(self) -> bool:
        """Whether it takes pods: ready, and not cordoned."""
        return not self.state & (NOT_READY | CORDONED)


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A pod without a node. since: Unix time of its creation."""

    since: float
    reason: str
    message: str
    priority: int
    nominated: str


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """The latest decision about a pod, as its condition PodScheduled has it; node: "" for none."""

    at: float
    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod. node: "" unless its requests count there; group: the key of its PodGroup, or "".

    requests: in the page's units; empty for a pod that has ended.
    """

    node: str
    group: str
    ended: bool
    requests: Mapping[str, int]
    pending: PendingRow | None
    decision: DecisionRow | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event. object: Pod default/web-0."""

    at: float
    type: str
    reason: str
    object: str
    message: str
    count: int


def in_page_units(units: Mapping[str, int]) -> dict[str, int]:
    """Return amounts in the page's units: cpu in millicores, bytes in MiB rounded up."""
    return {name: -(-amount // MIB) if is_bytes(name) else amount for name, amount in units.items()}


def is_bytes(resource: str) -> bool:
    """Whether a resource is counted in bytes, which the page shows in MiB."""
    return resource in (MEMORY, "ephemeral-storage") or resource.startswith("hugepages-")


def node_row(node: Node) -> NodeRow:
    """Return a node's row of the heat map; unreadable amounts count as 0."""
    allocatable = in_page_units(readable_allocatable(node))
    return NodeRow(node.metadata.name, zone_of(node.metadata.labels), node_state(node), allocatable)


def node_state(node: Node) -> int:
    """Return the state of a node."""
    ready = is_node_ready(node.status)
    cordoned = node.spec.unschedulable
    # The taint of a cordon does not count: the cordon has its own bit.
    tainted = any(
        taint.effect in HARD_EFFECTS and not (cordoned and taint.key == TAINT_UNSCHEDULABLE)
        for taint in node.spec.taints
    )
    bits = {
        NOT_READY: not ready,
        CORDONED: cordoned,
        TAINTED: tainted and ready,
        DELETED: node.metadata.HasField("deletion_timestamp"),
        HOLLOW: is_hollow(node),
    }
    return sum(bit for bit, is_set in bits.items() if is_set)


def pod_row(pod: Pod) -> PodRow:
    """Return a pod's row."""
    ended = is_finished(pod)
    condition = condition_of(pod.status, POD_SCHEDULED)
    node = pod.spec.node_name
    pending = None if node or ended else _pending(pod, condition)
    decision = _decision(node, condition) if condition is not None else None
    if ended:
        return PodRow("", group_key(pod), ended, {}, pending, decision)
    return PodRow(node, group_key(pod), ended, requests_of(pod), pending, decision)


def phase_of(pod: Pod) -> str:
    """Return a pod's phase, or that it is being deleted."""
    if pod.metadata.HasField("deletion_timestamp"):
        return "Terminating"
    return pod.status.phase or "Pending"


def requests_of(pod: Pod) -> dict[str, int]:
    """Return a pod's requests, including 1 of "pods"; unreadable amounts count as 0."""
    return {**in_page_units(readable_requests(pod)), PODS: 1}


def _pending(pod: Pod, condition: PodCondition | None) -> PendingRow:
    reason, message = "Waiting", "not tried yet"
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        reason, message = "SchedulingGated", f"waits for {gates} to be removed"
    elif condition is not None and condition.status == "False":
        reason, message = condition.reason or "Unschedulable", condition.message
    if pod.metadata.HasField("deletion_timestamp"):
        reason = "Terminating"
    return PendingRow(
        round(seconds_of(pod.metadata.creation_timestamp), 1),
        reason,
        cut(message),
        pod.spec.priority,
        pod.status.nominated_node_name,
    )


def _decision(node: str, condition: PodCondition) -> DecisionRow | None:
    at = seconds_of(condition.last_transition_time)
    if condition.status == "True" and node:
        return DecisionRow(round(at, 1), node, "Scheduled", "")
    if condition.status == "False" and not node and condition.reason != "SchedulingGated":
        return DecisionRow(round(at, 1), "", condition.reason, cut(condition.message))
    return None


def event_row(event: Event) -> EventRow:
    """Return an event's row."""
    about = event.involved_object
    name = joined_key(about.namespace, about.name)
    return EventRow(
        round(seconds_of_event(event), 1),
        event.type,
        event.reason,
        f"{about.kind} {name}",
        cut(event.message),
        max(event.count, event.series.count, 1),
    )


@lru_cache(maxsize=4096)
def gist(message: str) -> str:
    """Return the reasons in a message without their counts, to group pods by reason.

    For "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint(s)." this is
    "Insufficient cpu, node(s) had untolerated taint(s)"; other messages are returned as they are,
    shortened for a list.
    """
    found = _UNAVAILABLE.match(message)
    if found is None:
        return cut(message)
    reasons = _COUNTED.split(f", {found[1].removesuffix('.')}")
    return cut(", ".join(sorted(filter(None, reasons))))


def cut(text: str) -> str:
    """Return a text, shortened for a list."""
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
