"""The quantities in a message: changed, or compared by their amount as Kubernetes compares them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from podsched.api.objects import copy_of
from podsched.api.quantity import QuantityError, parse
from podsched.v1 import objects_pb2

M = TypeVar("M", bound=Message)


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
# than changing its quantities.
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
    # google.protobuf.Struct contains itself.
    return depth < 10 and any(_plan(descriptor, depth + 1))


def change_quantities(message: Any, change: Callable[[str], str]) -> None:
    """Replace all quantities of a message, in place."""
    plan = _plan(message.DESCRIPTOR)
    for name in plan.maps:
        amounts = getattr(message, name)
        for key in list(amounts):
            amounts[key] = change(amounts[key])
    for name in plan.scalars:
        if getattr(message, name):
            setattr(message, name, change(getattr(message, name)))
    for name in plan.several:
        amounts = getattr(message, name)
        amounts[:] = [change(amount) for amount in amounts]
    for part in _parts(message, plan):
        change_quantities(part, change)


def _parts(message: Any, plan: _Plan) -> Iterator[Any]:
    """Yield the messages inside a message that may contain quantities."""
    yield from (getattr(message, name) for name in plan.messages if message.HasField(name))
    for name in plan.lists:
        yield from getattr(message, name)
    for name in plan.entries:
        yield from getattr(message, name).values()


def are_same(one: object, other: object) -> bool:
    """Return whether two values are equal as ``apiequality.Semantic`` has it: "1Gi" is "1024Mi"."""
    if one == other:
        return True
    if not (isinstance(one, Message) and isinstance(other, Message)):
        return False
    return by_amount(one) == by_amount(other)


def by_amount(message: M) -> M:
    """Return a copy of a message in which equal amounts are written in the same way."""
    made = copy_of(message)
    change_quantities(made, _amount)
    return made


def _amount(text: str) -> str:
    try:
        return str(parse(text))
    except QuantityError:
        return text
