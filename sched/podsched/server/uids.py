"""Uids of new objects."""

from __future__ import annotations

from os import urandom


def random_uid() -> str:
    """Return a random uid (version 4), as ``uuid.uuid4`` does in twice the time."""
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
