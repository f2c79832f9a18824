"""The id of a call: in its trailing metadata, its errors, its trace and the audit log.

A client may bring its own in ``x-request-id``; it is taken if it is well formed, so that what a
client calls a request can be found here. Otherwise the server makes one up.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable
from typing import Final

KEY: Final = "x-request-id"
_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

# Random per process and counted: a tenth of what a random id costs for each call.
_PREFIX = secrets.token_hex(8)
_NUMBERS = itertools.count(1)


def request_id_of(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """Return the id that a call's metadata brings, or a new one."""
    for key, value in metadata:
        if key == KEY and isinstance(value, str) and _WELL_FORMED.fullmatch(value):
            return value
    return f"{_PREFIX}-{next(_NUMBERS):08x}"
