"""Makes quantities canonical, as Kubernetes does: "2000m" becomes "2", "1024Mi" becomes "1Gi"."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor

from podsched.api.quantity import canonical
from podsched.v1 import objects_pb2


class _Plan(NamedTuple):
    """The quantities among a message's fields, and the fields that may contain some."""

    maps: tuple[str, ...]
    scalars: tuple[str, ...]
    #: Lists of quantities.
    several: tuple[str, ...]
    messages: tuple[str, ...]
    lists: tuple[str, ...]
    #: Maps to messages.
    entries: tuple[str, ...]


# Computed once for each type of message: walking the descriptors for each object would cost more
# than making its quantities canonical.
@lru_cache(None)
def _plan(descriptor: Descriptor, depth: int = 0) -> _Plan:
    found: dict[str, list[str]] = {name: [] for name in _Plan._fields}
    for field in descriptor.fields:
        options: Any = field.GetOptions().Extensions
        message: Any = field.message_type
        is_map = message is not None and message.GetOptions().map_entry
        value = message.fields_by_name["value"].message_type if is_map else message
        if options[objects_pb2.format] == objects_pb2.FORMAT_QUANTITY:
            one = "several" if field.is_repeated else "scalars"
            found["maps" if is_map else one].append(field.name)
        elif value is not None and _has_any(value, depth):
            several = "entries" if is_map else "lists"
            found[several if field.is_repeated else "messages"].append(field.name)
    return _Plan(*(tuple(names) for names in found.values()))


def _has_any(descriptor: Descriptor, depth: int) -> bool:
    return depth < 10 and any(_plan(descriptor, depth + 1))


def make_canonical(message: Any) -> None:
    """Make all quantities of an object canonical, in place. Raises QuantityError."""
    plan = _plan(message.DESCRIPTOR)
    for name in plan.maps:
        amounts = getattr(message, name)
        for key in list(amounts):
            amounts[key] = canonical(amounts[key])
    for name in plan.scalars:
        if getattr(message, name):
            setattr(message, name, canonical(getattr(message, name)))
    for name in plan.several:
        amounts = getattr(message, name)
        amounts[:] = [canonical(amount) for amount in amounts]
    for part in _parts(message, plan):
        make_canonical(part)


def _parts(message: Any, plan: _Plan) -> Iterator[Any]:
    """Yield the messages inside a message that may contain quantities."""
    yield from (getattr(message, name) for name in plan.messages if message.HasField(name))
    for name in plan.lists:
        yield from getattr(message, name)
    for name in plan.entries:
        yield from getattr(message, name).values()
