"""Records which plugins ran when, for attempts that are traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

#: Max runs kept, because a large batch that is decided pod by pod has far more.
_MOST_RUNS = 256


class PluginRun(NamedTuple):
    """One run of a plugin at an extension point; monotonic seconds."""

    plugin: str
    point: str
    began: float
    ended: float
    status: str


class RunLog:
    """The runs since ``follow``; ``runs`` is None while none are recorded."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[PluginRun] | None = None

    def follow(self) -> None:
        """Start recording."""
        self.runs = []

    def add(self, plugin: str, point: str, began: float, ended: float, status: str) -> None:
        """Record a run, unless there are too many already."""
        if self.runs is not None and len(self.runs) < _MOST_RUNS:
            self.runs.append(PluginRun(plugin, point, began, ended, status))

    def take(self) -> Sequence[PluginRun]:
        """Return the recorded runs and stop recording."""
        runs, self.runs = self.runs, None
        return runs or ()


#: For plugins whose runs are never recorded.
NO_LOG: Final = RunLog()
