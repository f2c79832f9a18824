"""Outcomes of extension points, as values.

"Does not fit" is a Status and never an exception; an exception from a plugin is a bug or an
outage and is turned into ``Code.ERROR`` in one place, the runtime.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Code(enum.IntEnum):
    """kube-scheduler's status codes (``framework/interface.go``)."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def text(self) -> str:
        """Kubernetes' spelling, for example ``UnschedulableAndUnresolvable``."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def rejects(self) -> bool:
        """Whether the pod or node was rejected, without an error."""
        return self in _REJECTING


_REJECTING: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)


def encodable(text: str) -> str:
    """Return a plugin's text with surrogates escaped, since Events and conditions are UTF-8."""
    return text.encode(errors="backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of an extension point: a code, the reasons as texts, and the plugin."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    def __post_init__(self) -> None:
        if not all(map(str.isascii, self.reasons)):
            object.__setattr__(self, "reasons", tuple(map(encodable, self.reasons)))

    @property
    def ok(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def skipped(self) -> bool:
        return self.code is Code.SKIP

    @property
    def message(self) -> str:
        """The reasons, joined by commas as kube-scheduler does."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the same status, attributed to a plugin."""
        return Status(self.code, self.reasons, plugin)


SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a status: the pod does not fit now; preempting other pods might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a status: the pod does not fit, and preempting other pods cannot help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """Return a status: something went wrong; the pod is tried again after its backoff."""
    return Status(Code.ERROR, reasons)
