"""The interface of accelerators, which decide as the reference does, only faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from podsched.decide.decision import Decided, ShouldStop
from podsched.decide.keys import PlacementKey
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.trial import Trial


class Batch(NamedTuple):
    """Pods to decide in order, each assumed in the trial. ``key`` is that of the first pod.

    ``should_stop`` returns whether to stop after the pods decided so far. ``details``: keep the
    scores behind one of the choices.
    """

    trial: Trial
    runtime: ProfileRuntime
    pods: Sequence[QueuedPodInfo]
    key: PlacementKey
    should_stop: ShouldStop
    details: bool


class Accelerator(Protocol):
    """Decides for the first pods of a batch, exactly as the reference would one after another."""

    name: ClassVar[str]

    def try_(self, batch: Batch) -> Decided | None:
        """Decide for the first pods; return None to leave them to the next accelerator."""

    def is_ready(self, pod: PodInfo, key: PlacementKey) -> bool:
        """Whether it can decide a pod without evaluating all rows first."""
