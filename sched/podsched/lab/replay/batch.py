"""Run a log of batch jobs with reservations in time, and without, in virtual time.

The machine is one pool of processors with a queue, planned by ``queues.backfill``: what is measured
is the policy, without the rest of the scheduler. A job ends after its run time, or at its limit.

| order | which jobs start |
| --- | --- |
| FIFO | in the order of the queue: the first that has no room blocks all others |
| EASY | also later ones that do not delay the first |
| Conservative | also later ones that delay no other |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from podsched.lab.bench.plot import Points, line_chart, stacked
from podsched.lab.replay.history import History, PodHistory, quantiles
from podsched.lab.replay.traces.swf import BatchTrace
from podsched.queues.backfill.plan import Plan, Reservation
from podsched.queues.backfill.profile import Profile
from podsched.queues.objects import Backfill, ClusterQueue
from podsched.queues.quota import Amounts, FlavorResource, Quota
from podsched.queues.snapshot import Snapshot

#: Jobs that are planned for at a time, as Slurm's bf_max_job_test.
MOST_TESTED: Final = 500
#: Seconds below which a run time counts as these in the slowdown, after Feitelson and Rudolph.
SHORT: Final = 10.0
_QUEUE, _KEY = "machine", FlavorResource("processor", "processors")
_POINTS: Final = 200


class Order(StrEnum):
    """Which jobs may start; see the module."""

    FIFO = "FIFO"
    EASY = "EASY"
    CONSERVATIVE = "Conservative"


class BatchRun(NamedTuple):
    """The outcomes of the jobs, by their index in the trace."""

    order: Order
    started: list[float]
    broken: int
    """Jobs that started later than they were promised."""
    promised: int
    """Jobs that were promised a start."""


class BatchSummary(NamedTuple):
    """A run in numbers; waits are seconds."""

    utilisation: float
    """Share of the processors in use from the first submission to the last end."""
    wait_mean: float
    wait_median: float
    wait_p95: float
    slowdown: float
    """Mean of the bounded slowdown: wait and run time by run time, of at least ``SHORT``."""


def run_batch(
    trace: BatchTrace, order: Order, progress: Callable[[float], object] = lambda at: None
) -> BatchRun:
    """Run a trace; ``progress`` is called with the share of jobs that have started."""
    return _Machine(trace, order).run(progress)


class _Machine:
    def __init__(self, trace: BatchTrace, order: Order) -> None:
        self._jobs = trace.jobs
        self._order = order
        self._quota = Quota(trace.processors)
        self._forest = Snapshot([ClusterQueue(_QUEUE, quotas={_KEY: self._quota})]).forest
        self._free = trace.processors
        #: Indexes of jobs that wait, in order.
        self._waiting: dict[int, None] = {}
        #: Those that run: their ends in order, and by index the time at which they have to end.
        self._ends: list[tuple[float, int]] = []
        self._running: dict[int, float] = {}
        self._kept: dict[str, Reservation] = {}
        self._promised: dict[int, float] = {}
        self._started = [math.nan] * len(trace.jobs)

    def run(self, progress: Callable[[float], object]) -> BatchRun:
        arrived, jobs = 0, self._jobs
        while arrived < len(jobs) or self._ends:
            next_end = self._ends[0][0] if self._ends else math.inf
            now = min(next_end, jobs[arrived].submitted if arrived < len(jobs) else math.inf)
            while self._ends and self._ends[0][0] <= now:
                self._end(heappop(self._ends)[1])
            while arrived < len(jobs) and jobs[arrived].submitted <= now:
                self._waiting[arrived] = None
                arrived += 1
            if self._order is Order.FIFO:
                self._start_in_order(now)
            else:
                easy = self._order is Order.EASY
                self._start_planned(now, Backfill.EASY if easy else Backfill.CONSERVATIVE)
            progress((arrived - len(self._waiting)) / len(jobs))
        late = sum(self._started[index] > at for index, at in self._promised.items())
        return BatchRun(self._order, self._started, late, len(self._promised))

    def _start_in_order(self, now: float) -> None:
        while self._waiting:
            index = next(iter(self._waiting))
            if self._jobs[index].processors > self._free:
                return
            self._start(index, now)

    def _start_planned(self, now: float, policy: Backfill) -> None:
        if not self._waiting:
            return
        kept = self._kept.values()
        times = [*self._running.values(), *(at for one in kept for at in (one.start, one.end))]
        profile = Profile(now, self._forest, times)
        for index, end in self._running.items():
            profile.occupy(_QUEUE, self._usage(index), now, end)
        plan = Plan(profile, self._kept)
        for index in list(islice(self._waiting, MOST_TESTED)):
            self._plan(plan, index, now, policy)
        self._kept = plan.reservations

    def _plan(self, plan: Plan, index: int, now: float, policy: Backfill) -> None:
        """Start a job, or reserve a start if it may have one."""
        key, usage, limit = str(index), self._usage(index), self._jobs[index].limit
        reserves = plan.may_reserve(key, _QUEUE, 0, policy)
        start = plan.starts(key, _QUEUE, 0, usage, limit)[0]
        if start <= now:
            plan.start(key, _QUEUE, usage, limit)
            self._start(index, now)
        elif reserves:
            plan.reserve(key, Reservation(_QUEUE, 0, start, limit, usage))
            self._promised[index] = min(self._promised.get(index, math.inf), start)

    def _usage(self, index: int) -> Amounts:
        return {_KEY: self._jobs[index].processors}

    def _start(self, index: int, now: float) -> None:
        del self._waiting[index]
        job = self._jobs[index]
        self._started[index] = now
        self._free -= job.processors
        self._running[index] = now + job.limit
        heappush(self._ends, (now + job.runs, index))

    def _end(self, index: int) -> None:
        del self._running[index]
        self._free += self._jobs[index].processors


def summary(trace: BatchTrace, run: BatchRun) -> BatchSummary:
    """Return a run in numbers."""
    jobs = trace.jobs
    waits = _waits(trace, run)
    used = sum(job.runs * job.processors for job in jobs)
    last = max(at + job.runs for at, job in zip(run.started, jobs, strict=True))
    slowdowns = [
        max(1.0, (wait + job.runs) / max(job.runs, SHORT))
        for wait, job in zip(waits, jobs, strict=True)
    ]
    median, p95 = quantiles(waits, (0.5, 0.95))
    return BatchSummary(
        used / (last * trace.processors),
        sum(waits) / len(waits),
        median,
        p95,
        sum(slowdowns) / len(slowdowns),
    )


def history_of(trace: BatchTrace, run: BatchRun) -> History:
    """Return a run as a history in which each job is a pod that requests its processors."""
    history = History(max(at + job.runs for at, job in zip(run.started, trace.jobs, strict=True)))
    for index, (job, start) in enumerate(zip(trace.jobs, run.started, strict=True)):
        key = str(index)
        requests = {"processors": job.processors}
        history.pods[key] = PodHistory(
            key, key, requests, job.submitted, bound=start, ended=start + job.runs
        )
    return history


def batch_chart(title: str, trace: BatchTrace, runs: Sequence[BatchRun]) -> str:
    """Return an SVG document: the waits in ascending order, and the use of processors over time."""
    waits: dict[str, Points] = {}
    used: dict[str, Points] = {}
    for run in runs:
        shares = np.linspace(0.0, 1.0, _POINTS).tolist()
        hours = [wait / 3600 for wait in quantiles(_waits(trace, run), shares)]
        waits[run.order] = [(100 * s, hour) for s, hour in zip(shares, hours, strict=True)]
        used[run.order] = _use(trace, run)
    return stacked(
        (
            line_chart(title, waits, x_label="jobs that waited no longer (%)", y_label="wait (h)"),
            line_chart("Use", used, x_label="time (days)", y_label="processors in use (%)"),
        )
    )


def _waits(trace: BatchTrace, run: BatchRun) -> list[float]:
    return [at - job.submitted for at, job in zip(run.started, trace.jobs, strict=True)]


def _use(trace: BatchTrace, run: BatchRun) -> Points:
    """Return the mean use in equal parts of the run's time."""
    starts = np.array(run.started)
    ends = starts + np.array([job.runs for job in trace.jobs])
    sizes = np.array([job.processors for job in trace.jobs])
    edges = np.linspace(0.0, float(ends.max()), _POINTS + 1)
    width = edges[1] - edges[0]
    points = []
    for left, right in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        shared = np.clip(np.minimum(ends, right) - np.maximum(starts, left), 0.0, None)
        share = 100 * float((shared * sizes).sum()) / (width * trace.processors)
        points.append(((left + right) / 2 / 86_400, float(share)))
    return points
