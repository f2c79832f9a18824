"""Decodes gRPC requests with bounded memory.

A decoded message can be 140 times as large as its bytes (an empty container has 2 bytes, and takes
280 in memory), so a request of 16 MiB could take gigabytes. Therefore sizes are checked before
decoding:

    request with one object     at most the bytes of the largest object and MAX_PLAIN_BYTES
    request with only names     at most MAX_PLAIN_BYTES (64 KiB)
    batch                       items are counted in the undecoded bytes; objects are decoded one at
                                a time, so that not all of them are in memory in decoded form

Counting costs 0.3 µs per item, a hundredth of decoding a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.struct_pb2 import ListValue, Struct

from podsched.api.codec import excess
from podsched.lib.varint import read_varint
from podsched.serve.server import errors
from podsched.serve.server.admission import MAX_OBJECT_BYTES
from podsched.serve.server.errors import ApiError, Violation

#: Max items of a batch; with 5,000 large pods it has about 10 MiB.
MAX_BATCH: Final = 5000
#: Max bytes of a request without objects, and of the other fields of a request with one.
MAX_PLAIN_BYTES: Final = 64 << 10
#: Bytes of an object above which the lengths of its lists are checked first; a smaller one cannot
#: have too many items.
LARGE_BYTES: Final = 16 << 10
#: Max bytes of a batch of bindings, evictions, patches or statuses: 5,000 of 800 bytes.
MAX_BATCH_BYTES: Final = 4 << 20

M = TypeVar("M", bound=Message)


def bounded(message: type[M], most: int = MAX_PLAIN_BYTES) -> Callable[[bytes], M]:
    """Return a decoder for requests of at most ``most`` bytes.

    It raises ApiError, and DecodeError for malformed bytes.
    """

    def parse(raw: bytes) -> M:
        _check_size(raw, most)
        return message.FromString(raw)

    return parse


def with_object(message: type[M]) -> Callable[[bytes], M]:
    """Return a decoder for requests with one object. It raises ApiError."""
    decode = bounded(message, MAX_OBJECT_BYTES + MAX_PLAIN_BYTES)

    def parse(raw: bytes) -> M:
        decoded = decode(raw)
        if len(raw) > LARGE_BYTES:
            check_lists(decoded)
        return decoded

    return parse


def with_items(message: type[M], field: str) -> Callable[[bytes], M]:
    """Return a decoder for batches of small items, counted before decoding. It raises ApiError."""
    number = message.DESCRIPTOR.fields_by_name[field].number

    def parse(raw: bytes) -> M:
        _check_size(raw, MAX_BATCH_BYTES)
        large = [
            index
            for index, (_, start, end) in enumerate(_items(raw, number, field))
            if end - start > LARGE_BYTES
        ]
        decoded = message.FromString(raw)
        for index in large:
            check_lists(getattr(decoded, field)[index], f"{field}[{index}]")
        return decoded

    return parse


@dataclass(frozen=True, slots=True)
class Batch(Generic[M]):
    """A batch of undecoded objects; ``rest`` is the request without them."""

    rest: M
    items: Sequence[bytes]
    decode: Callable[[bytes], Any]

    @property
    def DESCRIPTOR(self) -> Any:
        """The descriptor of the request."""
        return self.rest.DESCRIPTOR

    def objects(self) -> Iterator[Any]:
        """Yield each object, decoded lazily, or the ApiError that it caused."""
        return objects_in(self.items, self.decode)


def objects_in(items: Iterable[bytes], decode: Callable[[bytes], Any]) -> Iterator[Any]:
    """Yield the object in each item, decoded lazily, or the ApiError that it caused."""
    for raw in items:
        try:
            if len(raw) > MAX_OBJECT_BYTES:
                raise errors.too_large(
                    f"the object is too large: {len(raw)} bytes, the limit is {MAX_OBJECT_BYTES}"
                )
            message = decode(raw)
            if len(raw) > LARGE_BYTES:
                check_lists(message)
            yield message
        except DecodeError:
            yield errors.bad_request("the object cannot be decoded")
        except ApiError as error:
            yield error


def batch_of(
    message: type[M], field: str, decode: Callable[[bytes], Any]
) -> Callable[[bytes], Batch[M]]:
    """Return a function that splits a batch of objects; it raises ApiError, as may ``decode``."""
    number = message.DESCRIPTOR.fields_by_name[field].number

    def parse(raw: bytes) -> Batch[M]:
        items, rest = split_items(raw, number, field)
        return Batch(bounded(message)(rest), items, decode)

    return parse


def check_lists(message: Message, path: str = "", items: int = 0) -> int:
    """Return ``items`` plus the number of items in all lists and maps of an object.

    Raises ApiError for more items than ``codec`` reads. To be called before defaulting and
    validation, which visit each item.
    """
    for field, value in message.ListFields():
        if not field.is_repeated and field.message_type is None:
            continue
        here = f"{path}.{field.json_name}" if path else field.json_name
        if not field.is_repeated:
            items = check_lists(value, here, items)
            continue
        items += len(value)
        # In a field without a schema, only all items together are counted, as in JSON.
        count = 0 if isinstance(message, Struct | ListValue) else len(value)
        if reason := excess(count, items):
            raise errors.bad_request(f"{here}: {reason}", here)
        for key, item in _messages_in(field, value):
            items = check_lists(item, f"{here}[{key}]", items)
    return items


def _messages_in(field: Any, value: Any) -> Iterable[tuple[object, Message]]:
    """Return the messages in a list or map, with their indices or keys."""
    inner = field.message_type
    if not isinstance(value, Mapping):
        return enumerate(value) if inner is not None else ()
    return value.items() if inner.fields_by_name["value"].message_type is not None else ()


def _check_size(raw: bytes, most: int) -> None:
    if len(raw) > most:
        raise errors.too_large(f"the request is too large: {len(raw)} bytes, the limit is {most}")


# ------------------------------------------------------------------ the wire format

#: protobuf's wire types; 3 and 4, groups, are refused.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def split_items(raw: bytes, number: int, field: str) -> tuple[list[bytes], bytes]:
    """Return the bytes of each item of a repeated field, and the message without them.

    Raises ApiError for more than MAX_BATCH items, without reading on, and for malformed bytes.
    """
    items: list[bytes] = []
    rest: list[bytes] = []
    copied = 0
    for start, value, end in _items(raw, number, field):
        rest.append(raw[copied:start])
        items.append(raw[value:end])
        copied = end
    rest.append(raw[copied:])
    return items, b"".join(rest)


def _items(raw: bytes, number: int, field: str) -> Iterator[tuple[int, int, int]]:
    """Yield the offsets of each item of a repeated field: its tag, its bytes and its end.

    Raises ApiError as ``split_items`` does.
    """
    wanted = number << 3 | _BYTES
    at, size, count = 0, len(raw), 0
    try:
        while at < size:
            start = at
            tag, at = read_varint(raw, at)
            end = _end_of(raw, at, tag & 7)
            if end > size:
                raise IndexError
            if tag == wanted:
                count += 1
                if count > MAX_BATCH:
                    raise _too_many(field)
                yield start, read_varint(raw, at)[1], end
            at = end
    except IndexError:
        raise errors.bad_request("the request cannot be decoded") from None


def _end_of(raw: bytes, at: int, kind: int) -> int:
    """Return the end of the value at an offset. Raises IndexError if it is truncated."""
    if kind == _BYTES:
        length, at = read_varint(raw, at)
        return at + length
    if kind == _VARINT:
        return read_varint(raw, at)[1]
    if kind == _FIXED64:
        return at + 8
    if kind == _FIXED32:
        return at + 4
    raise IndexError


def _too_many(field: str) -> ApiError:
    message = f"a batch may have at most {MAX_BATCH} items, this one has more"
    error = errors.too_large(message)
    error.violations = (Violation(field, message),)
    return error
