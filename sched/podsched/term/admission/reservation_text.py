"""The annotation with a unit's reservation, as JSON.

    {"start":"2027-01-15T08:01:45Z","usage":{"default/cpu":8000},"nodes":{"n0":{"cpu":8000,"pods":1}}}

``usage`` is by flavor and resource, ``nodes`` by node and resource. ``devices`` lists the promised
devices, each as driver, pool, device, share and capacities.

Users may write annotations, but not statuses. So the start counts only as early as the condition
``RESERVED`` tells it. If a leader dies between the two writes, the later start of both counts. And
no more counts than the unit asks for.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from podsched.api.codec import LAST_SECOND, format_seconds
from podsched.api.objects import Pod
from podsched.api.quantity import parse
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import PODS, Workload
from podsched.queues.quota import FlavorResource
from podsched.term.admission.reserved_devices import MOST_DEVICES, PromisedDevice, asked_devices
from podsched.term.admission.reserved_ports import port_names
from podsched.term.admission.units import Unit
from podsched.v1 import objects_pb2 as v1

_Key = TypeVar("_Key", str, FlavorResource)
_Amount = Annotated[int, Field(ge=0, lt=1 << 62)]

#: Annotation of a PodGroup or pod.
RESERVATION: Final = "podsched.io/reservation"
#: Condition of the same object: it has been promised a start. Its message tells the start, also if
#: it is False because an earlier start was withdrawn.
RESERVED: Final = "podsched.io/StartReserved"


def time_text(at: float) -> str:
    """Return a time for people, in UTC; the last that has a text stands for later ones."""
    # Users choose limits and grace periods, and their sum may be beyond the year 9999.
    return format_seconds(min(at, LAST_SECOND))


def start_text(start: str) -> str:
    """Return how a message tells a promised start, as ``time_text`` has it."""
    return f"starts at {start} at the latest"


class _Stored(BaseModel):
    """The parts of the annotation."""

    model_config = ConfigDict(strict=True)

    start: str
    usage: dict[str, _Amount]
    nodes: dict[str, dict[str, _Amount]]
    devices: Annotated[tuple[PromisedDevice, ...], Field(max_length=MOST_DEVICES)] = ()


_TOLD: Final = re.compile(start_text(r"(\S+)"))


def reservation_text(made: Reservation) -> str:
    """Return the text for a reservation."""
    usage = {f"{one.flavor}/{one.resource}": number for one, number in made.usage.items()}
    body: dict[str, Any] = {"start": time_text(made.start), "usage": usage, "nodes": made.nodes}
    if made.devices:
        body["devices"] = list(made.devices)
    return json.dumps(body, separators=(",", ":"))


def read_reservation(holder: Pod | v1.PodGroup, workload: Workload) -> Reservation | None:
    """Return the reservation that a PodGroup or pod has; None if it has none that counts."""
    text = holder.metadata.annotations.get(RESERVATION, "")
    said = next((c.message for c in holder.status.conditions if c.type == RESERVED), "")
    told = _TOLD.findall(said)
    if not (text and told):
        return None
    try:
        stored = _Stored.model_validate_json(text)
        if any(parse(amount) < 0 for one in stored.devices for _, amount in one.capacity):
            return None
        # As UTC, which raises OverflowError for a time beyond the year 9999.
        starts = (datetime.fromisoformat(at).astimezone(UTC) for at in (stored.start, told[-1]))
        start = max(starts).timestamp()
        usage = {
            FlavorResource(*name.split("/", 1)): number for name, number in stored.usage.items()
        }
    except (ValueError, TypeError, OverflowError):
        return None
    parts = workload.queue, workload.priority, start, workload.seconds
    return Reservation(*parts, usage, stored.nodes, stored.devices)


def stored_reservation(cluster: ClusterView, unit: Unit, workload: Workload) -> Reservation | None:
    """Return what the PodGroup of a unit, or one of its pods, has, up to what the unit asks for."""
    group = stored_group(cluster, unit.key)
    holders = (pod.pod for pod in unit.waiting.values()) if group is None else [group]
    made = next(filter(None, (read_reservation(one, workload) for one in holders)), None)
    if made is None:
        return None
    left, nodes = Counter[str](), {}
    for pod in unit.waiting.values():
        left.update({**pod.cls.requests, PODS: 1})
        left.update(port_names(pod.pod.spec))
    for node, here in made.nodes.items():
        if kept := _take(here, left, lambda resource: resource):
            nodes[node] = kept
    usage = _take(made.usage, workload.wanted, lambda key: key.resource)
    devices = made.devices[: asked_devices(cluster, unit.waiting.values())]
    return replace(made, usage=usage, nodes=nodes, devices=devices)


def _take(
    wanted: Mapping[_Key, int], left: dict[str, int], resource_of: Callable[[_Key], str]
) -> dict[_Key, int]:
    """Take amounts from those that are left, and return as much as there was."""
    taken = {}
    for key, amount in wanted.items():
        resource = resource_of(key)
        if number := min(amount, left.get(resource, 0)):
            left[resource] -= number
            taken[key] = number
    return taken
