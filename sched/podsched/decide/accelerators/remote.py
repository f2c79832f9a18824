"""Have other processes make first evaluations, which cover all rows."""

from __future__ import annotations

from typing import Protocol

from podsched.decide.accelerators.incremental import Evaluations
from podsched.decide.accelerators.variant_decisions import VariantDecisions
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodInfo


class RemoteEvaluator(Protocol):
    """Makes the first evaluation of a class in other processes; does nothing if it cannot."""

    @property
    def available(self) -> bool:
        """Whether other processes are available."""
        ...

    async def prepare(self, evaluation: ClassEvaluation, pod: PodInfo, traceparent: str) -> bool:
        """Make the first evaluation; return whether time has passed meanwhile."""
        ...


class RemoteEvaluations:
    """Prepares decisions of pods that need a first evaluation."""

    def __init__(
        self,
        evaluator: RemoteEvaluator | None,
        evaluations: Evaluations,
        variants: VariantDecisions,
    ) -> None:
        self._evaluator = evaluator
        self._evaluations = evaluations
        self._variants = variants

    @property
    def available(self) -> bool:
        """Whether other processes are available."""
        return self._evaluator is not None and self._evaluator.available

    async def prepare(self, runtime: ProfileRuntime, pod: PodInfo, traceparent: str) -> bool:
        """Have a pod's first evaluation made, if it needs one; return whether time has passed."""
        if self._evaluator is None or not self._evaluator.available:
            return False
        if self._variants.of(pod, self._evaluations.keys.key(pod)) is not None:
            return False
        evaluation = self._evaluations.selector(runtime, pod).evaluation
        return await self._evaluator.prepare(evaluation, pod, traceparent)
