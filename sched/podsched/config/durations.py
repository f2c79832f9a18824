"""Parse and format durations in Go's syntax ("15s", "1m30s", "500ms"), which Kubernetes uses.

Everywhere else in podsched, durations are seconds (float).
"""

from __future__ import annotations

from podsched.api.go_durations import UNITS, parse_nanoseconds

_MAX_NANOSECONDS = 2**63 - 1
_SECOND = UNITS["s"]


def parse_duration(text: str) -> float:
    """Return the seconds of a text in the syntax of Go's ``time.ParseDuration``.

    Raises ``ValueError`` for anything else, and beyond 292 years (int64 nanoseconds).
    """
    found = parse_nanoseconds(text)
    if found is None:
        raise ValueError(f"invalid duration {text!r}, use a form such as 15s, 1m30s or 500ms")
    if abs(found) > _MAX_NANOSECONDS:
        raise ValueError(f"invalid duration {text!r}, longer than 292 years")
    return found / _SECOND


def format_duration(seconds: float) -> str:
    """Return a duration as Go prints it: 90.0 -> "1m30s", 0.0015 -> "1.5ms", 0 -> "0s"."""
    nanoseconds = round(seconds * _SECOND)
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < _SECOND:
        for unit in ("ms", "µs", "ns"):
            if rest >= UNITS[unit]:
                return f"{sign}{_decimal(rest, UNITS[unit])}{unit}"
    minutes, rest = divmod(rest, UNITS["m"])
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
