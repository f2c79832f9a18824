"""Measure a profile's plugins: runs, every tenth run's time, and time per extension point.

A run is one call of a plugin, over any number of rows. So a batch of equal pods counts a few runs,
and the time of an extension point is divided by the number of its pods. Points without plugins are
not counted.

Deciding code reads no clock: ``ProfileMeters`` gets one, and the meters read it. Where the
metrics are not exported (actors, simulations), the clock stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, ParamSpec, TypeVar

from podsched.config.plugins import ExtensionPoint
from podsched.decide.runtime.plugin_calls import PluginFailure, failure_of, guarded
from podsched.decide.runtime.run_log import NO_LOG, RunLog
from podsched.framework.plugin import PermitResult, PostFilterResult, PreFilterResult
from podsched.framework.status import Code, Status
from podsched.telemetry.instruments import CounterCell, HistogramCell, MetricRegistry
from podsched.telemetry.metrics import EvaluationMetrics, SchedulerMetrics

P = ParamSpec("P")
R = TypeVar("R")

#: Returns monotonic seconds.
Clock = Callable[[], float]

#: One of this many runs is timed: kube-scheduler's pluginMetricsSamplePercent is 10.
SAMPLE_EVERY = 10


#: What a plugin that binds volumes does at an extension point; kube-scheduler counts its errors.
_VOLUME_OPERATIONS = {
    ExtensionPoint.FILTER: "predicate",
    ExtensionPoint.RESERVE: "assume",
    ExtensionPoint.PRE_BIND: "bind",
}


#: The extension points of an evaluation.
_EVALUATION: Final = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
)


def stopped_clock() -> float:
    """Return 0.0; the clock for meters whose times are not exported."""
    return 0.0


class PluginRuns:
    """Counts the runs of one plugin at one extension point, and times a sample of them."""

    __slots__ = ("_clock", "_errors", "_log", "_observe", "_point", "_total", "_until_timed")

    def __init__(
        self,
        total: CounterCell | None = None,
        observe: Callable[[str, float], None] = lambda status, seconds: None,
        clock: Clock = stopped_clock,
        errors: CounterCell | None = None,
        *,
        log: RunLog = NO_LOG,
        point: str = "",
    ) -> None:
        """``observe`` gets the status and the seconds of each timed run."""
        self._log = log
        self._point = point
        self._errors = errors
        self._total = total or CounterCell()
        self._observe = observe
        self._clock = clock
        self._until_timed = 0

    def failed(self) -> None:
        """Count an error, if errors of the plugin are counted at this point."""
        if self._errors is not None:
            self._errors.value += 1.0

    def count(self) -> None:
        """Count a run that is not timed."""
        self._total.value += 1.0

    def call(
        self, plugin: str, wording: str, run: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Make the call ``guarded``, and count it. Raises PluginFailure."""
        self._total.value += 1.0
        if self._until_timed and self._log.runs is None:
            self._until_timed -= 1
            try:
                return run(*args, **kwargs)  # As ``guarded``, without the call: the usual case.
            except PluginFailure:
                raise
            except Exception as error:
                raise failure_of(plugin, wording, error) from error
        due = not self._until_timed
        self._until_timed = SAMPLE_EVERY - 1 if due else self._until_timed - 1
        status, began = Code.ERROR, self._clock()
        try:
            result = guarded(plugin, wording, run, *args, **kwargs)
            status = _code_of(result)
            return result
        finally:
            ended = self._clock()
            # Runs that are only recorded for a trace must not change the sample.
            if due:
                self._observe(_TEXTS[status], ended - began)
            if self._log.runs is not None:
                self._log.add(plugin, self._point, began, ended, _TEXTS[status])


def _code_of(result: object) -> Code:
    if isinstance(result, (PreFilterResult, PermitResult, PostFilterResult)):
        return result.status.code
    return result.code if isinstance(result, Status) else Code.SUCCESS


#: The codes' texts by the code's number, which has no gaps. Precomputed, because computing one
#: takes as long as running a fast plugin.
_TEXTS: Final = tuple(code.text for code in Code)


class Phases(NamedTuple):
    """Times of a refresh of an evaluation: begin, and ends of PreFilter, Filter and Score."""

    began: float
    pre_filtered: float
    filtered: float
    scored: float


NO_PHASES: Final = Phases(0.0, 0.0, 0.0, 0.0)


class EvaluationCost:
    """Seconds that the refreshes of an evaluation took since they were last reported.

    A refresh calls ``begin``, ``pre_filter_done`` and ``filter_done`` if it reaches them, and
    ``end``. The time of PreScore is a part of Score's.
    """

    __slots__ = (
        "_began", "_clock", "_filtered", "_pre_filtered", "_pre_score",
        "filter", "phases", "pre_filter", "pre_score", "reached", "score", "scored",
    )  # fmt: skip

    def __init__(self, clock: Clock = stopped_clock) -> None:
        self._clock = clock
        self.pre_filter = self.filter = self.pre_score = self.score = 0.0
        #: The last extension point that the last refresh reached.
        self.reached = ExtensionPoint.PRE_FILTER
        self.scored = False
        self.phases = NO_PHASES
        self._began = self._pre_score = 0.0
        self._pre_filtered: float | None = None
        self._filtered: float | None = None

    def begin(self) -> None:
        """Start timing a refresh."""
        self._began = self._clock()
        self._pre_filtered = self._filtered = None
        self._pre_score = 0.0

    def pre_filter_done(self) -> None:
        """Note that Filter begins."""
        self._pre_filtered = self._clock()

    def filter_done(self) -> None:
        """Note that the feasible rows are known."""
        self._filtered = self._clock()

    def time_pre_score(self, run: Callable[[], None]) -> None:
        """Run a plugin's PreScore and measure its time."""
        began = self._clock()
        run()
        self._pre_score += self._clock() - began

    def end(self, *, feasible: bool) -> None:
        """Add the times of a finished refresh; ``feasible``: there were nodes to score."""
        began, ended = self._began, self._clock()
        pre_filtered, filtered = self._pre_filtered, self._filtered
        known = ended if filtered is None else filtered
        self.phases = Phases(began, known if pre_filtered is None else pre_filtered, known, ended)
        self.pre_score += self._pre_score
        if pre_filtered is None:
            self.reached = ExtensionPoint.PRE_FILTER
            self.pre_filter += ended - began
            return
        self.pre_filter += pre_filtered - began
        if filtered is None or not feasible:
            self.reached = ExtensionPoint.FILTER
            self.filter += ended - pre_filtered
            return
        self.reached = ExtensionPoint.SCORE
        self.scored = True
        self.filter += filtered - pre_filtered
        self.score += ended - filtered

    def reset(self) -> None:
        """Reset the sums after they were reported."""
        self.pre_filter = self.filter = self.pre_score = self.score = 0.0
        self.scored = False


class ProfileMeter:
    """Measures the plugins of one profile."""

    def __init__(
        self,
        profile: str,
        metrics: SchedulerMetrics,
        evaluation: EvaluationMetrics,
        clock: Clock,
        log: RunLog,
    ) -> None:
        self.clock = clock
        self._log = log
        self._profile = profile
        self._metrics = metrics
        self._points: dict[tuple[ExtensionPoint, Code], HistogramCell] = {}
        self._all_points: list[HistogramCell] | None = None
        rows = evaluation.evaluated_rows_total
        self._full_rows, self._changed_rows = rows.labels("full"), rows.labels("changed")

    def runs(
        self,
        point: ExtensionPoint,
        plugin: str,
        *,
        binds_volumes: bool = False,
        preempts: bool = False,
    ) -> PluginRuns:
        """Return the counter of a plugin's runs at a point."""
        metrics, total = self._metrics, None
        if point in _EVALUATION:
            total = metrics.plugin_evaluation_total.labels(plugin, point.label, self._profile)
        elif preempts and point is ExtensionPoint.POST_FILTER:
            total = metrics.preemption_attempts_total.labels()
        operation = _VOLUME_OPERATIONS.get(point) if binds_volumes else None
        failures = metrics.volume_scheduling_stage_error_total
        errors = failures.labels(operation) if operation else None
        timed = partial(self._timed, plugin, point.label)
        return PluginRuns(total, timed, self.clock, errors, log=self._log, point=point.label)

    def _timed(self, plugin: str, point: str, status: str, seconds: float) -> None:
        durations = self._metrics.plugin_execution_duration_seconds
        durations.labels(plugin, point, status).observe(seconds)

    def passed(self, point: ExtensionPoint, code: Code, seconds: float, pods: int = 1) -> None:
        """Record that ``pods`` pods passed a point together, in ``seconds`` in total."""
        cell = self._points.get((point, code))
        if cell is None:
            family = self._metrics.framework_extension_point_duration_seconds
            cell = family.labels(point.label, code.text, self._profile)
            self._points[point, code] = cell
        cell.observe_n(seconds / pods, pods)

    def evaluated(self, cost: EvaluationCost, pods: int, *, failed: bool) -> None:
        """Record the cost of an evaluation that decided for ``pods`` pods, and reset it.

        Only the last pod can have failed, or have ended at PreFilter or Filter.
        """
        if not failed and cost.scored and cost.reached is ExtensionPoint.SCORE:
            self._all_passed(cost, pods)
            cost.reset()
            return
        filtered = pods - (cost.reached is ExtensionPoint.PRE_FILTER)
        scored = pods - (cost.reached is not ExtensionPoint.SCORE) if cost.scored else 0
        spent = (cost.pre_filter, cost.filter, cost.pre_score, cost.score - cost.pre_score)
        counts = (pods, filtered, scored, scored)
        for point, seconds, count in zip(_EVALUATION, spent, counts, strict=True):
            errors = int(failed and point is cost.reached)
            if count > errors:
                share = seconds * (count - errors) / count
                self.passed(point, Code.SUCCESS, share, count - errors)
            if errors:
                self.passed(point, Code.ERROR, seconds / count)
        cost.reset()

    def _all_passed(self, cost: EvaluationCost, pods: int) -> None:
        """Record pods that passed all points. This is the usual case, and three times as fast."""
        if self._all_points is None:
            family, code = self._metrics.framework_extension_point_duration_seconds, Code.SUCCESS
            self._all_points = [
                family.labels(point.label, code.text, self._profile) for point in _EVALUATION
            ]
        pre_filter, filtering, pre_score, score = self._all_points
        pre_filter.observe_n(cost.pre_filter / pods, pods)
        filtering.observe_n(cost.filter / pods, pods)
        pre_score.observe_n(cost.pre_score / pods, pods)
        score.observe_n((cost.score - cost.pre_score) / pods, pods)

    def count_rows(self, rows: int, *, all_of_class: bool) -> None:
        """Count the rows that Filter ran on: all rows, or only changed rows."""
        (self._full_rows if all_of_class else self._changed_rows).inc(rows)


class ProfileMeters:
    """The meters of all profiles."""

    def __init__(
        self, metrics: SchedulerMetrics, evaluation: EvaluationMetrics, clock: Clock = stopped_clock
    ) -> None:
        self._clock = clock
        self.log = RunLog()
        self._metrics = metrics
        self._evaluation = evaluation
        self._profiles: dict[str, ProfileMeter] = {}

    @classmethod
    def unread(cls, clock: Clock = stopped_clock) -> ProfileMeters:
        """Return meters whose metrics are not exported, for actors, simulations and tests."""
        registry = MetricRegistry()
        return cls(SchedulerMetrics(registry), EvaluationMetrics(registry), clock)

    def of(self, profile: str) -> ProfileMeter:
        """Return the meter of a profile."""
        meter = self._profiles.get(profile)
        if meter is None:
            metrics, evaluation = self._metrics, self._evaluation
            meter = ProfileMeter(profile, metrics, evaluation, self._clock, self.log)
            self._profiles[profile] = meter
        return meter
