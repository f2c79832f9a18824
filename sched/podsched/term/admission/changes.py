"""Which changes of objects matter to queues."""

from __future__ import annotations

from typing import Any, Final

from podsched.term.admission.devices import CLAIM
from podsched.term.admission.endings import EVICTED

#: The kinds of which a change means that everything is read anew.
KINDS: Final = frozenset(
    {
        "ClusterQueue",
        "LocalQueue",
        "Cohort",
        "ResourceFlavor",
        "WorkloadPriorityClass",
        "DeviceClass",
        "Topology",
    }
)
#: The kinds whose changes matter here, beside Pod and Node.
OBJECTS: Final = KINDS | {"Namespace", "PodGroup", CLAIM}


def matters(kind: str, old: Any | None, new: Any | None) -> bool:
    """Whether a part of an object has changed that decides; None: it was not, or is not, there."""
    if old is None or new is None:
        return old is not new
    return _decides(kind, old) != _decides(kind, new)


def _decides(kind: str, item: Any) -> object:
    """Return the part of an object that decides."""
    if kind == "Namespace":
        return dict(item.metadata.labels)
    if kind == "WorkloadPriorityClass":
        return item.value
    if kind == CLAIM:
        return True  # Its spec never changes.
    if kind == "DeviceClass":
        return item.spec.extended_resource_name
    if kind == "ClusterQueue":
        return item.spec, dict(item.metadata.annotations)
    if kind == "PodGroup":
        evicted = [
            (one.status, one.reason, one.last_transition_time.seconds)
            for one in item.status.conditions
            if one.type == EVICTED
        ]
        return item.spec, dict(item.metadata.labels), dict(item.metadata.annotations), evicted
    return item.spec
