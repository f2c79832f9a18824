"""Which plugins ran when, while somebody follows them: for attempts that are traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

#: Runs kept at most: what a batch of pods that are decided on one by one comes to is more.
_MOST_RUNS = 256


class PluginRun(NamedTuple):
    """One run of a plugin at an extension point; monotonic seconds."""

    plugin: str
    point: str
    began: float
    ended: float
    status: str


class RunLog:
    """The runs since ``follow``; ``runs`` is None while nobody follows them."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[PluginRun] | None = None

    def follow(self) -> None:
        """Keep the runs from here on."""
        self.runs = []

    def add(self, plugin: str, point: str, began: float, ended: float, status: str) -> None:
        """Keep a run, if there are not too many."""
        if self.runs is not None and len(self.runs) < _MOST_RUNS:
            self.runs.append(PluginRun(plugin, point, began, ended, status))

    def take(self) -> Sequence[PluginRun]:
        """Return the runs that were kept, and keep no more."""
        runs, self.runs = self.runs, None
        return runs or ()


#: Of plugins that are never followed.
NOBODY: Final = RunLog()
