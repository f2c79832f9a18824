"""Durations in Go's syntax ("15s", "1m30s", "500ms"), as ``time.ParseDuration`` reads them."""

from __future__ import annotations

import re
from typing import Final

#: Nanoseconds.
UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# ASCII digits only, as in Go: \d matches the digits of every script.
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")


def parse_nanoseconds(text: str) -> int | None:
    """Return the nanoseconds of a text, maybe more than an int64 holds; None if it is none."""
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest in ("", "0"):
        return 0 if rest else None
    total, end = 0, 0
    while end < len(rest):
        match = _PART.match(rest, end)
        if match is None or not (match[1] or match[2]):
            return None
        unit, decimals = UNITS[match[3]], (match[2] or "")[:20]
        # 21 digits are beyond an int64 already, and Python refuses to read thousands.
        whole = int(match[1].lstrip("0")[:21] or 0)
        total += whole * unit + int(decimals or 0) * unit // 10 ** len(decimals)
        end = match.end()
    return sign * total
