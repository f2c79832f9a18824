"""Choose nodes for batches of pods: ask the accelerators first, then the reference.

``decide`` works on the live columns and assumes each pod in a trial. So each pod sees the pods
before it, and the caller may roll everything back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from podsched.decide.accelerator import Accelerator, Batch
from podsched.decide.decision import Decided, Decision, KeptDetails, ShouldStop
from podsched.decide.evaluation.sampling import Rotation
from podsched.decide.keys import Keys, PlacementKey
from podsched.decide.reference import Reference
from podsched.decide.runtime.plugin_metrics import NO_PHASES
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.trial import Trial

#: Max pods of different keys decided per event-loop turn, and max rows evaluated for them: each key
#: may need a pass over all rows, so with more than 25,000 nodes the rows are the limit. Popped one
#: by one, pods of a hundred templates with priorities had 8 % fewer pods/s.
MAX_DISTINCT: Final = 16
MAX_DISTINCT_ROWS: Final = 400_000

_deciders = itertools.count(1)


class Decider:
    """Decides for the pods of one cluster."""

    def __init__(
        self,
        cluster: ClusterView,
        keys: Keys,
        rotation: Rotation,
        accelerators: Sequence[Accelerator],
    ) -> None:
        """``accelerators`` are asked in order; ``rotation``: see ``Reference``."""
        self._cluster = cluster
        self._keys = keys
        self._rotation = rotation
        self._accelerators = accelerators
        self._reference = Reference(cluster, rotation)
        #: Key in ``PodClass.compiled`` that marks classes decided before. Numbered, because a copy
        #: of the cluster shares classes and has its own decider (what-if questions).
        self._known_class = f"decider {next(_deciders)}"
        #: The key of the pod decided last.
        self._latest: PlacementKey | None = None
        #: The phases of the latest evaluation.
        self.phases = NO_PHASES
        #: If ``decide`` was asked for details: the index of a decision, and its scores.
        self.details: KeptDetails | None = None

    # ------------------------------------------------------------------ which pods go together

    def key(self, pod: PodInfo) -> PlacementKey:
        """Return a key that is equal for pods that get the same decision, while nothing changes."""
        return self._keys.key(pod)

    def may_join(self, batch: Sequence[QueuedPodInfo], other: PodInfo) -> bool:
        """Return whether a pod may join a batch.

        A pod that shares the batch's evaluation key may always join. A pod with another key may
        join if neither it nor the first pod of the batch needs a first evaluation. Only a few such
        pods may join, since each may need a pass over all rows.
        """
        one = batch[0].info
        # A batch is decided by the plugins of one profile.
        if one.cls.scheduler_name != other.cls.scheduler_name:
            return False
        most = min(MAX_DISTINCT, MAX_DISTINCT_ROWS // (self._cluster.nodes.size + 1))
        # Cheapest first: no keys are compared if both classes were decided from an evaluation
        # before. If one of these evaluations has been dropped since, the batch only takes longer.
        known = self._known_class
        if known in one.cls.compiled and known in other.cls.compiled and len(batch) < most:
            return True
        if self._keys.may_be_equal(one, other):
            return self.key(one) == self.key(other)
        # Compute the other pod's key last: it is computed again when that pod comes first.
        return len(batch) < most and self._is_ready(one) and self._is_ready(other)

    def _is_ready(self, pod: PodInfo) -> bool:
        """Whether a pod can be decided without a first evaluation."""
        key = self.key(pod)
        return any(accelerator.is_ready(pod, key) for accelerator in self._accelerators)

    @property
    def rotation(self) -> int:
        """Where the next search for feasible nodes starts."""
        return self._rotation.start

    @rotation.setter
    def rotation(self, start: int) -> None:
        self._rotation.start = start

    # ------------------------------------------------------------------ decisions

    def decide(
        self,
        trial: Trial,
        runtime: ProfileRuntime,
        batch: Sequence[QueuedPodInfo],
        *,
        should_stop: ShouldStop = lambda: False,
        details: bool = False,
    ) -> list[Decision]:
        """Decide for the first pods in order: at least one, possibly not all.

        Each is assumed in the trial, so that later pods see it. Stops after a pod that fits
        nowhere or that a plugin reserves something for, and when ``should_stop`` returns True.
        ``details``: also keep the scores behind one of the choices.
        """
        self.details = None
        decisions: list[Decision] = []
        goes_on = True
        while goes_on and len(decisions) < len(batch):
            first = not decisions
            # The common batch is decided by one call, so it is not copied.
            left = batch if first else batch[len(decisions) :]
            # Compute keys only now: pods that had equal keys before a decision may differ after it.
            key = self._latest = self.key(left[0].info)
            decided = self._decide_some(
                Batch(trial, runtime, left, key, should_stop, details and first)
            )
            decisions += decided.decisions
            self.phases = decided.phases
            # Only the first call of an accelerator is asked for details.
            if first:
                self.details = decided.details
            goes_on = decided.goes_on and not should_stop()
        return decisions

    def _decide_some(self, batch: Batch) -> Decided:
        """Ask the accelerators for the first pods, else the reference for the first one."""
        for accelerator in self._accelerators:
            decided = accelerator.try_(batch)
            if decided is None:
                continue
            if decided.keeps_evaluation:
                batch.pods[0].info.cls.compiled[self._known_class] = True
            return decided
        return self._reference.decide(batch.trial, batch.runtime, batch.pods[0])
