"""Events: the rules of core/v1, and those which events.k8s.io/v1 adds.

Both groups show the same objects. Source: pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import format_time, write
from podsched.api.names import qualified_name
from podsched.api.objects import Event
from podsched.api.validation.place import Place

#: Max characters of what names the reporter and its action, and of the message.
_MAX_NAME, _MAX_NOTE = 128, 1024
#: Fields that cannot change through events.k8s.io/v1, in the order in which Kubernetes checks them.
_FIXED: Final = (
    *("involved_object", "reason", "message", "source", "first_timestamp", "last_timestamp"),
    *("count", "type", "event_time", "action", "related"),
    *("reporting_controller", "reporting_instance"),
)


def validate_event(at: Place, item: Event) -> None:
    """Validate an event of either group: what has an eventTime says who reports what."""
    involved, namespace = item.involved_object.namespace, item.metadata.namespace
    timed = item.HasField("event_time")
    allowed = ("default", "kube-system") if timed else ("default",)
    # One with an eventTime may be about an object of any namespace, as in Kubernetes.
    foreign = not timed and namespace != involved if involved else namespace not in allowed
    if foreign:
        at("involvedObject.namespace").invalid(involved, "does not match event.namespace")
    if not timed:
        return
    at("reportingController").present(item.reporting_controller)
    at("reportingController").rule(item.reporting_controller, qualified_name)
    for each, text in at.fields(("reporting_instance", "action", "reason"), item):
        each.present(text)
        _check_length(each, text, _MAX_NAME)
    _check_length(at("message"), item.message, _MAX_NOTE)


def _check_length(at: Place, text: str, limit: int) -> None:
    if len(text.encode()) > limit:
        at.invalid("", f"can have at most {limit} characters")


def validate_new_event(at: Place, item: Event) -> None:
    """Validate what events.k8s.io/v1 asks of a new event beyond ``validate_event``."""
    _check_series(at("series"), item)
    at("eventTime").present(item.HasField("event_time"))
    if item.type not in ("Normal", "Warning"):
        at("type").invalid("", f"has invalid value: {item.type}")
    for name, there in (
        ("firstTimestamp", item.HasField("first_timestamp")),
        ("lastTimestamp", item.HasField("last_timestamp")),
        ("count", item.count),
        ("source", item.source.component or item.source.host),
    ):
        if there:
            at(name).invalid("", "needs to be unset")


def validate_new_event_update(at: Place, new: Event, old: Event) -> None:
    """Check that nothing but the series changes through events.k8s.io/v1."""
    if new.series != old.series:
        _check_series(at("series"), new)
    for name in _FIXED:
        now, before = getattr(new, name), getattr(old, name)
        if now != before:
            path = Event.DESCRIPTOR.fields_by_name[name].json_name
            # Here, Kubernetes names the field as events.k8s.io/v1 does.
            path = "reportingController" if name == "reporting_controller" else path
            at(path).fixed(now, before, _shown(now))


def _check_series(at: Place, item: Event) -> None:
    if not item.HasField("series"):
        return
    if item.series.count < 2:
        at("count").invalid("", "should be at least 2")
    at("lastObservedTime").present(item.series.HasField("last_observed_time"))


def _shown(value: object) -> object:
    if isinstance(value, Timestamp):
        return format_time(value)
    return write(value) if isinstance(value, Message) else value
