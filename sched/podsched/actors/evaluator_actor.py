"""An actor that holds a shard of the nodes, and filters, scores and dry-runs them for the leader.

The class is plain Python, so it is tested without Ray. Its calls run one after another, in the
order in which the leader made them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from podsched.actors.packing import dump, load, pack_result, unpack_rows
from podsched.actors.terms import Adoption, StaleTerm, TermGuard
from podsched.cache.delta_decoder import DeltaDecoder
from podsched.cache.deltas import DeltaGapError
from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import PodClasses
from podsched.config.profiles import Profile
from podsched.decide.accelerators.sharding import EvaluationRequest, evaluate
from podsched.decide.evaluation.dry_run import DryRunRequest, dry_run_rows
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.plugin_metrics import ProfileMeters
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.run_spans import record_runs
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import PluginFactory
from podsched.lib.memory import freeze_imports, keep_freed_memory
from podsched.registry import factories
from podsched.telemetry.tracing import SpanName, configure_tracing


@dataclass(frozen=True, slots=True)
class NotCurrent:
    """The shard has not applied the deltas that the leader expects."""


@dataclass(frozen=True, slots=True)
class PluginFailed:
    """A plugin failed in the shard; the leader evaluates the pod itself and reports the failure."""


class EvaluatorActor:
    """One shard. Before the first delta of a term it has no nodes and answers NotCurrent."""

    def __init__(
        self, fingerprint: str, name: str, profiles: Sequence[Profile], otlp_endpoint: str = ""
    ) -> None:
        keep_freed_memory()
        # A full collection took 0.05 to 0.1 s, nearly all for modules, at each change of leader.
        freeze_imports()
        self._guard = TermGuard(fingerprint)
        self._profiles = profiles
        self._factories: Mapping[str, PluginFactory] = factories()
        self._meter = ProfileMeters.unread(time.monotonic)
        self.tracer = configure_tracing("podsched-evaluator", otlp_endpoint or None, instance=name)
        self._forget()

    def _forget(self) -> None:
        self._decoder = DeltaDecoder()
        self._cluster = ClusterState(self._decoder.columns)
        self._classes = PodClasses()
        self._runtimes: dict[str, ProfileRuntime] = {}

    def adopt(self, term: int, fingerprint: str) -> Adoption:
        """Follow the term. What an earlier leader sent uses its row numbers, so it is dropped."""
        answer = self._guard.adopt(term, fingerprint)
        if answer is Adoption.ADOPTED:
            self._forget()
        return answer

    def sync(self, term: int, delta: bytes) -> StaleTerm | NotCurrent | None:
        """Apply the next delta; NotCurrent asks for all of them from the first on."""
        refusal = self._guard.refusal(term)
        if refusal is not None:
            return refusal
        columns = self._decoder.columns
        try:
            self._decoder.apply(load(delta))
        except DeltaGapError:
            return NotCurrent()
        if self._decoder.columns is not columns:
            self._make_runtimes()
        return None

    def _make_runtimes(self) -> None:
        self._cluster = ClusterState(self._decoder.columns)
        handle = SimulatedHandle(self._cluster)
        self._runtimes = {
            profile.scheduler_name: ProfileRuntime(profile, self._factories, handle, self._meter)
            for profile in self._profiles
        }

    def evaluate(
        self, term: int, number: int, request: bytes, traceparent: str = ""
    ) -> StaleTerm | NotCurrent | PluginFailed | bytes:
        """Filter and score the shard's rows; answer a packed EvaluationResult.

        ``number``: that of the delta that the leader sends next.
        """
        refusal = self._refusal(term, number)
        if refusal is not None:
            return refusal
        columns = self._decoder.columns
        asked: EvaluationRequest = load(request)
        with self._span(SpanName.SHARD_EVALUATE, traceparent):
            try:
                runtime = self._runtimes[asked.scheduler_name]
                result = evaluate(runtime, columns, self._classes, asked)
            except PluginFailure:
                return PluginFailed()
            return pack_result(result, columns.size)

    def dry_run_rows(
        self, term: int, number: int, request: bytes, rows: bytes, traceparent: str = ""
    ) -> StaleTerm | NotCurrent | bytes:
        """Try preemption on the given rows that belong to the shard; answer a packed DryRunResult.

        ``number`` as for ``evaluate``.
        """
        refusal = self._refusal(term, number)
        if refusal is not None:
            return refusal
        asked: DryRunRequest = load(request)
        with self._span(SpanName.SHARD_TRY, traceparent):
            runtime = self._runtimes[asked.scheduler_name]
            result = dry_run_rows(runtime, self._cluster, self._classes, asked, unpack_rows(rows))
            return dump(result)

    def _refusal(self, term: int, number: int) -> StaleTerm | NotCurrent | None:
        """Return the refusal of a call of another term, or of one that expects other deltas."""
        refusal = self._guard.refusal(term)
        if refusal is None and (number != self._decoder.next_number or not self._runtimes):
            return NotCurrent()
        return refusal

    @contextmanager
    def _span(self, name: SpanName, traceparent: str) -> Iterator[None]:
        """Record the block and the runs of plugins in it, if the attempt is traced."""
        with self.tracer.resume(name, traceparent) as span:
            if not span.recording:
                yield
                return
            self._meter.log.follow()
            try:
                yield
            finally:
                record_runs(span, self._meter.log.take())
