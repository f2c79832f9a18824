"""The result of deciding for a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.runtime.plugin_metrics import NO_PHASES, Phases
from podsched.framework.plugin import CycleState
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Status

#: Returns whether to stop after the pods decided so far.
ShouldStop = Callable[[], bool]


@dataclass(eq=False, slots=True)
class Decision:
    """The outcome for one pod: a node (already assumed), a diagnosis why none fits, or an error.

    ``total`` is the node's score, None if it was not scored. ``feasible`` and ``evaluated`` are
    numbers of nodes, 0 if unknown.
    """

    queued: QueuedPodInfo
    state: CycleState
    node_name: str = ""
    diagnosis: Diagnosis | None = None
    error: Status | None = None
    total: int | None = None
    feasible: int = 0
    evaluated: int = 0


class RowScores(NamedTuple):
    """A row's weighted total, and the score of each plugin."""

    row: int
    total: int
    plugins: Mapping[str, int]


class ScoreDetails(NamedTuple):
    """The chosen row and the runners-up; ``ties``: feasible rows that share the best total."""

    rows: tuple[RowScores, ...]
    ties: int


class KeptDetails(NamedTuple):
    """The scores behind one of several decisions, its index, and what reading them cost."""

    place: int
    scores: ScoreDetails
    seconds: float


class Decided(NamedTuple):
    """Decisions for the first pods of a batch, at least one.

    ``goes_on``: whether more pods may be decided before these decisions are processed. False after
    a pod that fits nowhere or that a plugin has to reserve something for.
    ``details`` are kept if requested and available. ``keeps_evaluation``: whether the evaluation of
    the first pod's class is kept, so that later pods of the class need no first evaluation.
    """

    decisions: list[Decision]
    goes_on: bool
    phases: Phases = NO_PHASES
    details: KeptDetails | None = None
    keeps_evaluation: bool = False
