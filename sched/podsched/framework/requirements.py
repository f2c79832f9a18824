"""By how much a node misses what a pod wants, for those who ask why it does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from podsched.framework.nodes import Bools, Int64s, NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows

FLAG: Final = "flag"


@dataclass(frozen=True, slots=True)
class Requirement:
    """How much of something a pod wants of each row, and how much each has to give.

    Arrays have shape ``(len(rows),)``; a row misses the requirement where ``wanted`` is greater
    than ``available``. unit: "m" for thousandths of a cpu, "bytes", "" for plain numbers, or FLAG
    for what a node has or has not.
    """

    what: str
    unit: str
    wanted: Int64s
    available: Int64s

    @classmethod
    def met(cls, what: str, has: Bools) -> Requirement:
        """Return the requirement of something that a node has or has not."""
        return cls(what, FLAG, np.ones(len(has), dtype=np.int64), has.astype(np.int64))


@runtime_checkable
class MeasuresRequirements(Protocol):
    """Filter plugins that can say by how much the rows miss that they reject."""

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return what the plugin checks that can be counted, of any rows, forks' too.

        It is asked after PreFilter, with the same state, about rows that the plugin rejects.
        """
        ...
