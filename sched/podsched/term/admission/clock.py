"""The time in admission."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

#: The last Unix time, in whole seconds, that ``datetime`` can represent.
_LAST_TIME: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


@dataclass(slots=True)
class Clock:
    """The present in seconds since 1970, the same for all parts of admission.

    It is the monotonic time plus what the system's clock was ahead when the term began, so it does
    not jump when that clock is set.
    """

    epoch: float = 0.0
    """The Unix time of the monotonic time 0."""
    now: float = 0.0
    """The time of the last ``Admission.refresh``."""


def time_text(at: float) -> str:
    """Return a time for people, in UTC; the last that has a text stands for later ones."""
    # Users choose limits and grace periods, and their sum may be beyond the year 9999.
    return datetime.fromtimestamp(min(at, _LAST_TIME), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
