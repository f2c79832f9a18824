"""Parse and format durations in Go's syntax ("15s", "1m30s", "500ms"), which Kubernetes uses.

Everywhere else in podsched, durations are seconds (float).
"""

from __future__ import annotations

import re
from decimal import Decimal, Overflow

_UNIT_NANOSECONDS = {
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
_TERM = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_MAX_NANOSECONDS = 2**63 - 1
_SECOND = 1_000_000_000


def parse_duration(text: str) -> float:
    """Return the seconds of a text in the syntax of Go's ``time.ParseDuration``.

    Raises ``ValueError`` for anything else, and beyond 292 years (int64 nanoseconds).
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    sign = -1 if text[:1] == "-" else 1
    if digits == "0":
        return 0.0
    total, position = Decimal(0), 0
    while position < len(digits):
        term = _TERM.match(digits, position)
        if term is None:
            break
        try:
            total += Decimal(term[1]) * _UNIT_NANOSECONDS[term[2]]
        except Overflow:  # a million digits
            total = Decimal("Infinity")
        position = term.end()
    if not digits or position != len(digits):
        raise ValueError(f"invalid duration {text!r}, use a form such as 15s, 1m30s or 500ms")
    if total > _MAX_NANOSECONDS:
        raise ValueError(f"invalid duration {text!r}, longer than 292 years")
    return sign * int(total) / _SECOND


def format_duration(seconds: float) -> str:
    """Return a duration as Go prints it: 90.0 -> "1m30s", 0.0015 -> "1.5ms", 0 -> "0s"."""
    nanoseconds = round(seconds * _SECOND)
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < _SECOND:
        for unit in ("ms", "µs", "ns"):
            if rest >= _UNIT_NANOSECONDS[unit]:
                return f"{sign}{_decimal(rest, _UNIT_NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(rest, _UNIT_NANOSECONDS["m"])
    text = f"{_decimal(rest, _SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = (f"{hours}h" if hours else "") + f"{minutes}m" + text
    return sign + text


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, fraction = divmod(nanoseconds, unit)
    if not fraction:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{str(fraction).zfill(digits).rstrip('0')}"
