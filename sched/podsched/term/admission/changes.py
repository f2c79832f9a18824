"""Which changes of objects matter to queues, and which objects queues cannot use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from podsched.api.conditions import is_terminating
from podsched.api.kinds import QUEUE_KINDS
from podsched.api.objects import AnyObject, object_key
from podsched.queues.stored import read_cluster_queue, read_cohort
from podsched.term.admission.devices import CLAIM
from podsched.term.admission.histories import stored_history, weight_of
from podsched.term.admission.requeuing import EVICTED

#: A change of these kinds means that everything is read again.
REBUILD_KINDS: Final = frozenset({*QUEUE_KINDS, "DeviceClass"})
#: All kinds that queues depend on, besides Pod and Node.
RELEVANT_KINDS: Final = REBUILD_KINDS | {"Namespace", "PodGroup", CLAIM}
#: By kind, a function that reads the values of an object as queues do.
_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "ClusterQueue": read_cluster_queue,
    "Cohort": read_cohort,
    "LocalQueue": lambda item: (weight_of(item), stored_history(item)),
}


def check_readable(kind: str, item: AnyObject) -> None:
    """Raise ValueError, with the object as a note, if queues cannot read an object's values.

    Such an object must not get into the cache, or no queue could be read any more.
    """
    if kind in _READERS:
        try:
            _READERS[kind](item)
        except ValueError as error:
            error.add_note(f'{kind} "{object_key(item)}"')
            raise


def matters(kind: str, old: Any | None, new: Any | None) -> bool:
    """Whether a change of an object can change a decision; None: it did not, or does not, exist."""
    if old is None or new is None or old.metadata.uid != new.metadata.uid:
        return old is not new
    return _relevant_part(kind, old) != _relevant_part(kind, new)


def is_gone(old: Any | None, new: Any | None) -> bool:
    """Whether the object that had a name is gone; another one may have it now."""
    return new is None or (old is not None and old.metadata.uid != new.metadata.uid)


def _relevant_part(kind: str, item: Any) -> object:
    """Return the part of an object that decisions depend on."""
    if kind == "Namespace":
        return dict(item.metadata.labels)
    if kind == "WorkloadPriorityClass":
        return item.value
    if kind == CLAIM:
        return True  # Its spec never changes.
    if kind == "DeviceClass":
        return item.spec.extended_resource_name
    if kind == "ClusterQueue":
        return item.spec, dict(item.metadata.annotations), is_terminating(item)
    if kind == "PodGroup":
        evicted = [
            (one.status, one.reason, one.last_transition_time.seconds)
            for one in item.status.conditions
            if one.type == EVICTED
        ]
        return item.spec, dict(item.metadata.labels), dict(item.metadata.annotations), evicted
    return item.spec
