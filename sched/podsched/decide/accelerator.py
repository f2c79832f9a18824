"""What an accelerator is: something that decides as the reference does, only sooner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from podsched.cache.trial import Trial
from podsched.decide.decision import Decision, KeptDetails
from podsched.decide.evaluation.selection import Enough
from podsched.decide.keys import PlacementKey
from podsched.decide.runtime.plugin_metrics import NO_PHASES, Phases
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import QueuedPodInfo


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


class Decided(NamedTuple):
    """Decisions for the first pods of a batch, at least one.

    ``goes_on``: whether the pods after them may be decided on before these are followed up;
    not so after one that fits nowhere, or that a plugin has to reserve something for.
    ``details`` are kept where they were asked for, and there are any.
    """

    decisions: list[Decision]
    goes_on: bool
    phases: Phases = NO_PHASES
    details: KeptDetails | None = None


class Accelerator(Protocol):
    """Decides for the first pods of a batch, exactly as the reference would one after another."""

    name: ClassVar[str]

    def try_(self, batch: Batch) -> Decided | None:
        """Decide for the first pods; None: leave them to the next."""
        ...
