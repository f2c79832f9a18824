"""The annotation with a unit's reservation: its name, and its text as JSON.

    {"start":"2027-01-15T08:01:45Z","usage":{"default/cpu":8000},"nodes":{"n0":{"cpu":8000,"pods":1}}}

``usage`` is by flavor and resource, ``nodes`` by node and resource. ``devices`` lists the promised
devices, each as driver, pool, device, share and capacities.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from podsched.lib.bounded_text import parse_json
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Workload
from podsched.queues.quota import FlavorResource
from podsched.term.admission.reserved_devices import PromisedDevice

#: Annotation of a PodGroup or pod.
RESERVATION: Final = "podsched.io/reservation"


def reservation_text(made: Reservation, start: str) -> str:
    """Return the text for a reservation; ``start``: its start in UTC, in ISO 8601."""
    usage = {f"{one.flavor}/{one.resource}": number for one, number in made.usage.items()}
    body: dict[str, Any] = {"start": start, "usage": usage, "nodes": made.nodes}
    if made.devices:
        body["devices"] = list(made.devices)
    return json.dumps(body, separators=(",", ":"))


def parse_reservation(text: str, workload: Workload, epoch: float) -> Reservation | None:
    """Return the reservation in a text, for a workload; None if it cannot be read.

    ``epoch``: the Unix time of the monotonic time 0.
    """
    if not text:
        return None
    try:
        body = parse_json(text.encode())
        start = datetime.fromisoformat(body["start"]).timestamp() - epoch
        usage = {
            FlavorResource(*name.split("/", 1)): _number(number)
            for name, number in body["usage"].items()
        }
        nodes = {
            str(node): {str(resource): _number(number) for resource, number in amounts.items()}
            for node, amounts in body["nodes"].items()
        }
        devices = tuple(map(_device, body.get("devices", ())))
    # Users may write the annotation: one that cannot be read counts as none.
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    who = workload.queue, workload.priority
    return Reservation(*who, start, workload.seconds, usage, nodes, devices)


def _device(value: Any) -> PromisedDevice:
    *names, capacity = value
    driver, pool, device, share = map(str, names)
    pairs = tuple((str(name), str(amount)) for name, amount in capacity)
    return PromisedDevice(driver, pool, device, share, pairs)


def _number(value: Any) -> int:
    if not isinstance(value, int) or value < 0 or value >= 1 << 62:
        raise ValueError(value)
    return value
