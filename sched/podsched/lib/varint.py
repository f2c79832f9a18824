"""Encodes non-negative integers as protobuf's varints."""

from __future__ import annotations


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
