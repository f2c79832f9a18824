"""Tells of new workloads that no controller makes pods of: a warning, and an Event."""

from __future__ import annotations

from typing import Final

from podsched.api.objects import AnyObject, Event, timestamp
from podsched.api.owners import CONTROLLED_KINDS, OWN_KINDS

#: Kinds that only a kube-controller-manager makes pods of.
NEEDS_MANAGER: Final = frozenset(CONTROLLED_KINDS) - OWN_KINDS
#: Warning for such a workload while no kube-controller-manager runs.
NO_CONTROLLER: Final = (
    "a {kind} makes no pods: podsched has controllers for ReplicaSets and Jobs only, and no "
    "kube-controller-manager renews its Lease in kube-system; run one, or submit a ReplicaSet, a "
    "Job or the pods instead"
)
_REPORTER: Final = "podsched-apiserver"


def no_controller_event(kind: str, api_version: str, message: AnyObject, now: float) -> Event:
    """Return the Event about a new workload. now: Unix time in seconds."""
    about = message.metadata
    event = Event(reason="NoController", type="Warning", count=1)
    event.metadata.namespace = about.namespace
    event.metadata.name = f"{about.name[:200]}.{int(now * 1e9):x}"
    event.involved_object.kind, event.involved_object.api_version = kind, api_version
    event.involved_object.namespace, event.involved_object.name = about.namespace, about.name
    event.involved_object.uid = about.uid
    event.message = NO_CONTROLLER.format(kind=kind)
    event.source.component = event.reporting_controller = _REPORTER
    event.first_timestamp.CopyFrom(timestamp(now, whole=True))
    event.last_timestamp.CopyFrom(event.first_timestamp)
    return event
