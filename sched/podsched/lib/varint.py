"""Numbers as protobuf writes them."""

from __future__ import annotations


def _written(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


#: Nearly all numbers written are lengths of keys and objects: looked up, not computed.
SMALL = 8192
VARINTS = tuple(_written(number) for number in range(SMALL))


def varint(number: int) -> bytes:
    """Return a non-negative number as protobuf writes it."""
    return VARINTS[number] if number < SMALL else _written(number)
