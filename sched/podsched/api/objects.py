"""The messages of every kind, and functions that need no kind.

The protobuf messages are the objects: there is no second hierarchy of classes beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message as Message
from google.protobuf.struct_pb2 import Struct as Struct
from google.protobuf.timestamp_pb2 import Timestamp as Timestamp

from podsched.lib.ids import PodKey
from podsched.v1.any_object import AnyObject as AnyObject
from podsched.v1.objects_pb2 import *  # noqa: F403
from podsched.v1.objects_pb2 import Event, Pod

M = TypeVar("M", bound=Message)


def latest_time(stamp: Timestamp | None, seen: float) -> float:
    """Return the latest possible Unix time of what happened at ``stamp`` and was seen at ``seen``.

    A stamp of Kubernetes has whole seconds, rounded down.
    """
    return seen if stamp is None else min(seen, seconds_of(stamp) + 1)


def copy_of(message: M, without: Iterable[str] = ()) -> M:
    """Return a copy of a message, without some of its fields."""
    made = type(message)()
    made.CopyFrom(message)
    for name in without:
        made.ClearField(name)
    return made


def copy_field(target: Message, source: Message, name: str) -> None:
    """Set a field to what it is in another message of the type; clear it if it is absent there."""
    target.ClearField(name)
    field, value = target.DESCRIPTOR.fields_by_name[name], getattr(source, name)
    if field.is_repeated:
        getattr(target, name).MergeFrom(value)
    elif field.has_presence and not source.HasField(name):
        return
    elif field.message_type is not None:
        getattr(target, name).CopyFrom(value)
    else:
        setattr(target, name, value)


def key_of(pod: Pod) -> PodKey:
    """Return the namespace/name of a pod."""
    metadata = pod.metadata
    return PodKey(f"{metadata.namespace}/{metadata.name}")


def object_key(message: AnyObject) -> str:
    """Return namespace/name, or the name alone where there is no namespace."""
    return joined_key(message.metadata.namespace, message.metadata.name)


def joined_key(namespace: str, name: str) -> str:
    """Return the key of the object with this namespace, "" for none, and name."""
    return f"{namespace}/{name}" if namespace else name


def timestamp(seconds: float, *, whole: bool = False) -> Timestamp:
    """Return Unix time as a Timestamp of microseconds, or of whole seconds as in metav1.Time."""
    if whole:
        return Timestamp(seconds=int(seconds))
    micros = round(seconds * 1e6)
    return Timestamp(seconds=micros // 1_000_000, nanos=micros % 1_000_000 * 1000)


def seconds_of(stamp: Timestamp) -> float:
    """Return a Timestamp as Unix time in seconds."""
    return stamp.seconds + stamp.nanos / 1e9


def seconds_of_event(event: Event) -> float:
    """Return the Unix time at which an event happened last."""
    stamps = (event.series.last_observed_time, event.last_timestamp, event.first_timestamp)
    return max(map(seconds_of, (*stamps, event.event_time)))
