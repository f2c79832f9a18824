"""Formats ages of objects, as kubectl prints them."""

from __future__ import annotations

_SECONDS = {"y": 365 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}
#: The units of durations of so many seconds or more.
_UNITS = (
    (8 * 365 * 86400, "y"),
    (2 * 365 * 86400, "yd"),
    (8 * 86400, "d"),
    (48 * 3600, "dh"),
    (8 * 3600, "h"),
    (3 * 3600, "hm"),
    (600, "m"),
    (120, "ms"),
    (0, "s"),
)


def age(seconds: float) -> str:
    """Return a duration as kubectl prints ages: 5s, 3m20s, 2h5m, 3d4h, 2y70d.

    Source: HumanDuration of k8s.io/apimachinery/pkg/util/duration.
    """
    rest, text = max(0, int(seconds)), ""
    for unit in next(units for least, units in _UNITS if rest >= least):
        count, rest = divmod(rest, _SECONDS[unit])
        if count or not text:
            text += f"{count}{unit}"
    return text
