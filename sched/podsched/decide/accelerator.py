"""What an accelerator is: something that decides as the reference does, only sooner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from podsched.decide.decision import Decided, Enough
from podsched.decide.keys import PlacementKey
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.trial import Trial


class Batch(NamedTuple):
    """Pods to be decided on in their order, each assumed in the trial; ``key``: the first one's.

    ``enough``: whether the pods decided on so far are enough for now; ``details``: keep what one of
    the choices was made from.
    """

    trial: Trial
    runtime: ProfileRuntime
    pods: Sequence[QueuedPodInfo]
    key: PlacementKey
    enough: Enough
    details: bool


class Accelerator(Protocol):
    """Decides for the first pods of a batch, exactly as the reference would one after another."""

    name: ClassVar[str]

    def try_(self, batch: Batch) -> Decided | None:
        """Decide for the first pods; None: leave them to the next."""
        ...
