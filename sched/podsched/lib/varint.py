"""Protobuf's wire format: encodes varints, and reads fields of messages without a schema."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet


def _encoded(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


#: Encodings of smaller numbers are precomputed: nearly all numbers are lengths of keys and objects.
SMALL = 8192
VARINTS = tuple(_encoded(number) for number in range(SMALL))


def varint(number: int) -> bytes:
    """Return the varint of a non-negative number."""
    return VARINTS[number] if number < SMALL else _encoded(number)


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number and its end. Raises IndexError if truncated or longer than 10 bytes."""
    byte = raw[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in range(7, 70, 7):
        at += 1
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise IndexError("a number is too long")


def delimited_fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of a message's fields that are not numbers. Raises DecodeError."""
    found = UnknownFieldSet(Empty.FromString(raw))
    for index in range(len(found)):
        field = found[index]
        if isinstance(field.data, bytes):
            yield field.field_number, field.data
