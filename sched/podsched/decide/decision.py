"""What is decided for a pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.evaluation.score_details import ScoreDetails
from podsched.framework.plugin import CycleState
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Status


@dataclass(eq=False, slots=True)
class Decision:
    """The outcome for one pod: a node (already assumed), a diagnosis why none fits, or an error.

    ``total`` is the node's, None where it was not scored; ``feasible`` and ``evaluated`` are
    numbers of nodes, 0 where they are not known.
    """

    queued: QueuedPodInfo
    state: CycleState
    node_name: str = ""
    diagnosis: Diagnosis | None = None
    error: Status | None = None
    total: int | None = None
    feasible: int = 0
    evaluated: int = 0


class KeptDetails(NamedTuple):
    """What one of several decisions was made from: its place among them, and what that cost."""

    place: int
    scores: ScoreDetails
    seconds: float
