"""The names and types of the fields of Kubernetes' objects, from ``kubernetes_fields.txt``.

Some of our fields hold what Kubernetes has types for as objects without a schema, such as probes.
Typed clients stop at the first object that they cannot decode, and with it at all of a list: so
what does not fit is refused here, too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from podsched.api.quantity import QuantityError, parse


def _is_integer(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_quantity(value: object) -> bool:
    try:
        parse(str(value))
    except QuantityError:
        return False
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


#: What values are called that are no messages, and how they are recognised.
_SCALARS: Final = {
    "int": ("an integer", _is_integer),
    "bool": ("a boolean", lambda value: isinstance(value, bool)),
    "string": ("a string", _is_string),
    "bytes": ("a string", _is_string),
    "Time": ("a string", _is_string),
    "MicroTime": ("a string", _is_string),
    "Quantity": ("a quantity", _is_quantity),
    "IntOrString": ("a string or an integer", lambda v: _is_string(v) or _is_integer(v)),
    "RawExtension": ("", lambda _: True),
}
_LIST: Final = ("an array", lambda value: isinstance(value, list))
_OBJECT: Final = ("an object", lambda value: isinstance(value, Mapping))


@lru_cache(None)
def numbered_fields() -> Mapping[str, Mapping[int, tuple[str, str]]]:
    """Return name and type of each message's fields, by message and number."""
    text = files(__package__).joinpath("kubernetes_fields.txt").read_text("utf-8")
    _, *blocks = text.split("\n\n")
    messages = {}
    for message, *lines in map(str.splitlines, blocks):
        fields = (line.split() for line in lines)
        messages[message] = {int(number): (name, form) for number, name, form in fields}
    return messages


@lru_cache(None)
def types_of(message: str) -> Mapping[str, str]:
    """Return the types of a message's fields by name; none for an unknown message."""
    found: dict[str, str] = {}
    for name, form in numbered_fields().get(message, {}).values():
        found |= types_of(form) if name == "..." else {name: form}
    return found


def misfits(value: Any, form: str, path: str) -> Iterator[tuple[str, object, str]]:
    """Yield path and value of what does not fit a type, and what is expected.

    Nothing is expected of a field that does not exist. Null fits everything.
    """
    if value is None:
        return
    called, fits = _SCALARS.get(form) or (_LIST if form.endswith("[]") else _OBJECT)
    if not fits(value):
        yield path, value, called
    elif form not in _SCALARS:
        for item, inner, here in _inside(value, form, path):
            if inner:
                yield from misfits(item, inner, here)
            else:
                yield here, item, ""


def _inside(value: Any, form: str, path: str) -> Iterator[tuple[Any, str, str]]:
    """Yield each item of a list or map, or each field of a message, with its type and path."""
    if form.endswith("[]"):
        yield from ((item, form[:-2], f"{path}[{index}]") for index, item in enumerate(value))
    elif form.endswith("{}"):
        yield from ((item, form[:-2], f"{path}[{key}]") for key, item in value.items())
    else:
        types = types_of(form)
        yield from ((item, types.get(key, ""), f"{path}.{key}") for key, item in value.items())
