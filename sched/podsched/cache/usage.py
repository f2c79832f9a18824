"""The names of the usage columns, and queries over them and other counts by priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podsched.framework.nodes import PodQuery
from podsched.framework.pods import PodClass, PodInfo

#: Usage columns that are not resources; resources go by their own names.
POD_COUNT: Final = "#pods"
NONZERO: Final = {"cpu": "#nonzero cpu", "memory": "#nonzero memory"}
FIRST_COLUMNS: Final = (POD_COUNT, *NONZERO.values(), "cpu", "memory", "ephemeral-storage")


def class_usage(cls: PodClass) -> dict[str, int]:
    """Return what one pod of the class adds to each usage column."""
    return {
        POD_COUNT: 1,
        NONZERO["cpu"]: cls.nonzero[0],
        NONZERO["memory"]: cls.nonzero[1],
        **cls.requests,
    }


@dataclass(frozen=True, slots=True)
class UsageBelow:
    """How much of a usage column is taken by pods of a lower priority than this."""

    column: str
    priority: int

    def counts(self, pod: PodInfo) -> int:
        if pod.cls.priority >= self.priority:
            return 0
        return class_usage(pod.cls).get(self.column, 0)


@dataclass(frozen=True, slots=True)
class CountBelow:
    """Another query's count, of pods of a lower priority than this alone."""

    query: PodQuery
    priority: int

    def counts(self, pod: PodInfo) -> int:
        return self.query.counts(pod) if pod.cls.priority < self.priority else 0
