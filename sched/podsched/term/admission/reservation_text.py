"""The annotation with a unit's reservation, as JSON.

    {"start":"2027-01-15T08:01:45Z","usage":{"default/cpu":8000},"nodes":{"n0":{"cpu":8000,"pods":1}}}

``usage`` is by flavor and resource, ``nodes`` by node and resource. ``devices`` lists the promised
devices, each as driver, pool, device, share and capacities.

Users may write annotations, but not statuses. So the start counts only as early as the condition
``RESERVED`` tells it. If a leader dies between the two writes, the later start of both counts.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final

from podsched.api.objects import Pod
from podsched.lib.bounded_text import parse_json
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Workload
from podsched.queues.quota import FlavorResource
from podsched.term.admission.reserved_devices import PromisedDevice
from podsched.v1 import objects_pb2 as v1

#: Annotation of a PodGroup or pod.
RESERVATION: Final = "podsched.io/reservation"
#: Condition of the same object: it has been promised a start. Its message tells the start, also if
#: it is False because an earlier start was withdrawn.
RESERVED: Final = "podsched.io/StartReserved"


def start_text(start: str) -> str:
    """Return how a message tells a promised start."""
    return f"starts at {start} at the latest"


_TOLD: Final = re.compile(start_text(r"(\S+)"))


def reservation_text(made: Reservation, start: str) -> str:
    """Return the text for a reservation; ``start``: its start in UTC, in ISO 8601."""
    usage = {f"{one.flavor}/{one.resource}": number for one, number in made.usage.items()}
    body: dict[str, Any] = {"start": start, "usage": usage, "nodes": made.nodes}
    if made.devices:
        body["devices"] = list(made.devices)
    return json.dumps(body, separators=(",", ":"))


def read_reservation(
    holder: Pod | v1.PodGroup, workload: Workload, epoch: float
) -> Reservation | None:
    """Return the reservation that a PodGroup or pod has; None if it has none that counts.

    ``epoch``: the Unix time of the monotonic time 0.
    """
    text = holder.metadata.annotations.get(RESERVATION, "")
    said = next((c.message for c in holder.status.conditions if c.type == RESERVED), "")
    told = _TOLD.findall(said)
    if not (text and told):
        return None
    try:
        body = parse_json(text.encode())
        start = max(datetime.fromisoformat(at).timestamp() for at in (body["start"], told[-1]))
        usage = {
            FlavorResource(*name.split("/", 1)): _number(number)
            for name, number in body["usage"].items()
        }
        nodes = {
            str(node): {str(resource): _number(number) for resource, number in amounts.items()}
            for node, amounts in body["nodes"].items()
        }
        devices = tuple(map(_device, body.get("devices", ())))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    who = workload.queue, workload.priority
    return Reservation(*who, start - epoch, workload.seconds, usage, nodes, devices)


def _device(value: Any) -> PromisedDevice:
    *names, capacity = value
    driver, pool, device, share = map(str, names)
    pairs = tuple((str(name), str(amount)) for name, amount in capacity)
    return PromisedDevice(driver, pool, device, share, pairs)


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0 or value >= 1 << 62:
        raise ValueError(value)
    return value
