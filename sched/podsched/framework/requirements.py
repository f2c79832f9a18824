"""Optional protocols of plugins for explanations: what a node lacks, and how much would fit."""

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
    """The amount that a pod requires of each row, and the amount that each row has available.

    Arrays have shape ``(len(rows),)``; a row does not meet the requirement if ``wanted`` is
    greater than ``available``. unit: "m" for thousandths of a cpu, "bytes", "" for plain numbers,
    or FLAG for a property that a node has (1) or lacks (0).
    """

    what: str
    unit: str
    wanted: Int64s
    available: Int64s

    @classmethod
    def met(cls, what: str, has: Bools) -> Requirement:
        """Return a requirement of unit FLAG. ``has``: the rows that meet it."""
        return cls(what, FLAG, np.ones(len(has), dtype=np.int64), has.astype(np.int64))


@runtime_checkable
class MeasuresRequirements(Protocol):
    """Filter plugins that can measure by how much rejected rows miss their requirements."""

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return the requirements that can be measured, for any rows, also a fork's.

        Called after PreFilter with the same state, for rows that the plugin rejects.
        """


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a node, such as devices, with the same verdict.

    ``request``: the request that they were compared with. ``why_not``: why they cannot be used for
    it; "" if they can.
    """

    request: str
    names: Sequence[str]
    why_not: str = ""


@runtime_checkable
class ExplainsParts(Protocol):
    """Filter plugins that choose among parts of a node."""

    def parts(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, row: int
    ) -> Sequence[Parts]:
        """Return the verdicts on the parts of one row; called after PreFilter with its state."""


@runtime_checkable
class CountsCopies(Protocol):
    """A Reserve plugin whose Filter, on a fork, counts what Reserve would take for added copies."""

    def counts_copies(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> bool:
        """Return whether Filter does so for pods like this one, on all rows."""
