"""Timestamps and durations of CEL (cel-go v0.26 ``common/types/timestamp.go``, ``duration.go``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from podsched.api.cel.declarations import declare, declare_each
from podsched.api.cel.values import Failure, Timestamp
from podsched.api.go_durations import UNITS, parse_nanoseconds

#: As Go's time.Parse takes it: an hour may have one digit.
_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(text: str) -> int | None:
    """Return the nanoseconds since 1970 of a time in RFC 3339; None if it is none."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    *parts, fraction, zone = match.groups()
    try:
        moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[arg-type,misc]
    except ValueError:
        return None
    offset = 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        # The bounds of Go's parser, which are no real offsets.
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 60 + minutes) * (60 if zone[0] == "+" else -60)
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    return seconds * 10**9 + int(f"{fraction or '':0<9}"[:9])


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of a duration as Go writes it (1h30m); None if it is none."""
    found = parse_nanoseconds(text)
    return found if found is not None and -(2**63) <= found < 2**63 else None


def timestamp_text(ns: int) -> str:
    """Return the time in RFC 3339."""
    moment = _moment(ns, UTC)
    fraction = f".{ns % 10**9:09d}".rstrip("0").rstrip(".")
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def duration_text(ns: int) -> str:
    """Return the seconds as cel-go writes them: of a double, without an exponent."""
    whole, rest = divmod(abs(ns), 10**9)
    seconds = f"{Decimal(repr(whole + rest / 1e9)):f}".removesuffix(".0")
    return f"{'-' if ns < 0 else ''}{seconds}s"


def _moment(ns: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(seconds=ns // 10**9)).astimezone(zone)


@lru_cache(256)
def _zone(name: str) -> tzinfo | None:
    match = re.fullmatch(r"([+-]?)([0-9]{1,2}):([0-9]{2})", name)
    if match:
        minutes = int(match[2]) * 60 + int(match[3])
        return (
            timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
            if minutes < 1440
            else None
        )
    if len(name) > 64:
        return None
    try:
        return UTC if name in ("", "UTC") else ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def _part(name: str, read: Callable[[datetime], int]) -> None:
    @declare(f".{name}(timestamp) -> int")
    def of_timestamp(value: Timestamp) -> int:
        return read(_moment(value.ns, UTC))

    @declare(f".{name}(timestamp, string) -> int")
    def in_zone(value: Timestamp, zone_name: str) -> int | Failure:
        zone = _zone(zone_name)
        if zone is None:
            return Failure(f"unknown time zone {zone_name}")
        try:
            return read(_moment(value.ns, zone))
        except OverflowError:
            return Failure("timestamp overflow")


for _name, _read in {
    "getFullYear": lambda t: t.year,
    "getMonth": lambda t: t.month - 1,
    "getDayOfYear": lambda t: t.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda t: t.day - 1,
    "getDate": lambda t: t.day,
    "getDayOfWeek": lambda t: t.isoweekday() % 7,
    "getHours": lambda t: t.hour,
    "getMinutes": lambda t: t.minute,
    "getSeconds": lambda t: t.second,
}.items():
    _part(_name, _read)


@declare(".getMilliseconds(timestamp) -> int")
def _milliseconds(value: Timestamp) -> int:
    return value.ns % 10**9 // 10**6


@declare(".getMilliseconds(timestamp, string) -> int")
def _milliseconds_in_zone(value: Timestamp, zone_name: str) -> int | Failure:
    return _milliseconds(value) if _zone(zone_name) else Failure(f"unknown time zone {zone_name}")


def _whole(ns: int, unit: int) -> int:
    return ns // unit if ns >= 0 else -(-ns // unit)


declare_each(
    {
        ".getHours(duration) -> int": lambda value: _whole(value.ns, UNITS["h"]),
        ".getMinutes(duration) -> int": lambda value: _whole(value.ns, UNITS["m"]),
        ".getSeconds(duration) -> int": lambda value: _whole(value.ns, 10**9),
        ".getMilliseconds(duration) -> int": lambda value: _whole(value.ns, 10**6),
    }
)
