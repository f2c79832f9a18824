"""Schedules the renewals of nodes' heartbeat leases, and makes their requests.

Pure. Renewals are spread evenly over the period, so that thousands of nodes cause a steady load
instead of bursts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from podsched.api.codec import format_time
from podsched.api.objects import Lease, Node, timestamp
from podsched.v1.api_pb2 import PatchRequest

NAMESPACE = "kube-node-lease"
DURATION = 40
"""Seconds: kubelet's nodeLeaseDurationSeconds."""
SLOTS = 20
"""Number of parts of a period among which renewals are spread."""


class RenewalSchedule:
    """Assigns each node to the slot of a period that has the fewest nodes."""

    def __init__(self, slots: int = SLOTS) -> None:
        self._slots: list[dict[str, None]] = [{} for _ in range(slots)]
        self._slot_of: dict[str, int] = {}
        self._at = 0

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, name: str) -> bool:
        return name in self._slot_of

    def add(self, name: str) -> None:
        """Assign a slot to a node unless it has one."""
        if name in self._slot_of:
            return
        least = min(range(len(self._slots)), key=lambda slot: len(self._slots[slot]))
        self._slots[least][name] = None
        self._slot_of[name] = least

    def remove(self, name: str) -> None:
        """Remove a node, which is no longer due."""
        slot = self._slot_of.pop(name, None)
        if slot is not None:
            del self._slots[slot][name]

    def turn(self) -> list[str]:
        """Advance to the next slot and return its nodes."""
        self._at = (self._at + 1) % len(self._slots)
        return list(self._slots[self._at])


def new_lease(node: Node, now: float) -> Lease:
    """Return the initial lease of a node, owned by the node."""
    lease = Lease()
    lease.metadata.name = node.metadata.name
    lease.metadata.namespace = NAMESPACE
    if node.metadata.uid:
        lease.metadata.owner_references.add(
            api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid
        )
    lease.spec.holder_identity = node.metadata.name
    lease.spec.lease_duration_seconds = DURATION
    lease.spec.renew_time.CopyFrom(timestamp(now))
    return lease


def renewals(names: Iterable[str], now: float) -> list[PatchRequest]:
    """Return the patches that renew the leases of these nodes."""
    spec = {"renewTime": format_time(timestamp(now))}
    patch = json.dumps({"spec": spec}).encode()
    return [
        PatchRequest(kind="Lease", namespace=NAMESPACE, name=name, merge_patch=patch)
        for name in names
    ]
