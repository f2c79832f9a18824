"""Events: the rules of core/v1, and those which events.k8s.io/v1 adds.

Both groups show the same objects. Source: pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import format_time, write
from podsched.api.field_errors import FieldError, invalid, required
from podsched.api.objects import Event
from podsched.api.validation.meta import IMMUTABLE
from podsched.api.validation.names import qualified_name

_NEEDS_TO_BE_UNSET: Final = "needs to be unset"
_FOREIGN: Final = "does not match event.namespace"
#: Characters.
_MAX_NAME, _MAX_NOTE = 128, 1024
#: What events.k8s.io/v1 never changes, in the order in which it looks.
_FIXED: Final = {
    "involved_object": "involvedObject",
    "reason": "reason",
    "message": "message",
    "source": "source",
    "first_timestamp": "firstTimestamp",
    "last_timestamp": "lastTimestamp",
    "count": "count",
    "type": "type",
    "event_time": "eventTime",
    "action": "action",
    "related": "related",
    "reporting_controller": "reportingController",
    "reporting_instance": "reportingInstance",
}


def validate_event(item: Event) -> list[FieldError]:
    """Validate an event of either group: what has an eventTime says who reports what."""
    involved, namespace = item.involved_object.namespace, item.metadata.namespace
    timed = item.HasField("event_time")
    errors: list[FieldError] = []
    allowed = ("default", "kube-system") if timed else ("default",)
    # One with an eventTime may be about an object of any namespace, as in Kubernetes.
    foreign = not timed and namespace != involved if involved else namespace not in allowed
    if foreign:
        errors.append(invalid("involvedObject.namespace", involved, _FOREIGN))
    if not timed:
        return errors
    controller = item.reporting_controller
    if not controller:
        errors.append(required("reportingController"))
    errors += [invalid("reportingController", controller, r) for r in qualified_name(controller)]
    for path, text in (
        ("reportingInstance", item.reporting_instance),
        ("action", item.action),
        ("reason", item.reason),
    ):
        if not text:
            errors.append(required(path))
        elif len(text.encode()) > _MAX_NAME:
            errors.append(_too_long(path, _MAX_NAME))
    if len(item.message.encode()) > _MAX_NOTE:
        errors.append(_too_long("message", _MAX_NOTE))
    return errors


def _too_long(path: str, limit: int) -> FieldError:
    return invalid(path, "", f"can have at most {limit} characters")


def validate_new_event(item: Event) -> list[FieldError]:
    """Validate what events.k8s.io/v1 asks of a new event beyond ``validate_event``."""
    errors = _series(item)
    if not item.HasField("event_time"):
        errors.append(required("eventTime"))
    if item.type not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {item.type}"))
    for path, there in (
        ("firstTimestamp", item.HasField("first_timestamp")),
        ("lastTimestamp", item.HasField("last_timestamp")),
        ("count", item.count),
        ("source", item.source.component or item.source.host),
    ):
        if there:
            errors.append(invalid(path, "", _NEEDS_TO_BE_UNSET))
    return errors


def validate_new_event_update(new: Event, old: Event) -> list[FieldError]:
    """Check that nothing but the series changes through events.k8s.io/v1."""
    errors = _series(new) if new.series != old.series else []
    for name, path in _FIXED.items():
        now = getattr(new, name)
        if now != getattr(old, name):
            errors.append(invalid(path, _shown(now), IMMUTABLE))
    return errors


def _series(item: Event) -> list[FieldError]:
    errors: list[FieldError] = []
    if not item.HasField("series"):
        return errors
    if item.series.count < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not item.series.HasField("last_observed_time"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _shown(value: object) -> object:
    if isinstance(value, Timestamp):
        return format_time(value)
    return write(value) if isinstance(value, Message) else value
