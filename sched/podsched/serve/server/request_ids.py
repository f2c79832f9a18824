"""Assigns each call an id, used in its trailing metadata, errors, trace and the audit log.

A client may send its own in ``x-request-id``, which is used if it is well formed, so that clients
and server log the same id. Otherwise the server generates one.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable
from typing import Final

KEY: Final = "x-request-id"
_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

# A random prefix per process and a counter: a tenth of the cost of a random id per call.
_PREFIX = secrets.token_hex(8)
_NUMBERS = itertools.count(1)


def request_id_of(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the id in a call's metadata, or a new one."""
    for key, value in metadata:
        if key == KEY and isinstance(value, str) and _WELL_FORMED.fullmatch(value):
            return value
    return f"{_PREFIX}-{next(_NUMBERS):08x}"
