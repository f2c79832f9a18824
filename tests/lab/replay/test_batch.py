"""Logs of batch jobs, run in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.lab.replay.batch import (
    BatchRun,
    Order,
    batch_chart,
    history_of,
    run_batch,
    summary,
)
from podsched.lab.replay.traces.swf import BatchJob, BatchTrace
from support.examples import examples

#: The second needs all processors; the third fits beside the first and ends before it, the fourth
#: ends after it.
FOUR = BatchTrace(
    4,
    [
        BatchJob(0.0, 100.0, 100.0, 2),
        BatchJob(1.0, 50.0, 50.0, 4),
        BatchJob(2.0, 60.0, 60.0, 2),
        BatchJob(3.0, 99.0, 99.0, 2),
    ],
)


@st.composite
def traces(draw: st.DrawFn) -> BatchTrace:
    jobs = []
    for _ in range(draw(st.integers(1, 12))):
        limit = draw(st.integers(1, 20))
        at, runs = draw(st.integers(0, 15)), draw(st.integers(1, limit))
        jobs.append(BatchJob(float(at), float(runs), float(limit), draw(st.integers(1, 8))))
    return BatchTrace(8, sorted(jobs, key=lambda job: job.submitted))


def assert_within_capacity(trace: BatchTrace, run: BatchRun) -> None:
    for now in run.started:
        spans = zip(trace.jobs, run.started, strict=True)
        used = sum(job.processors for job, at in spans if at <= now < at + job.runs)
        assert used <= trace.processors


def test_in_order_a_wide_job_blocks_those_behind_it() -> None:
    assert run_batch(FOUR, Order.FIFO).started == [0.0, 100.0, 150.0, 150.0]


@pytest.mark.parametrize("order", [Order.EASY, Order.CONSERVATIVE])
def test_a_short_job_starts_before_a_wide_one_that_it_does_not_delay(order: Order) -> None:
    assert run_batch(FOUR, order).started == [0.0, 100.0, 2.0, 150.0]


def test_only_conservative_keeps_the_start_of_a_job_behind_the_first() -> None:
    jobs = [
        BatchJob(0.0, 10.0, 10.0, 6),
        BatchJob(1.0, 10.0, 10.0, 7),
        BatchJob(2.0, 10.0, 10.0, 8),
        BatchJob(3.0, 40.0, 40.0, 1),
    ]
    trace = BatchTrace(8, jobs)
    assert run_batch(trace, Order.EASY).started == [0.0, 10.0, 43.0, 3.0]
    assert run_batch(trace, Order.CONSERVATIVE).started == [0.0, 10.0, 20.0, 30.0]


def test_a_run_is_told_in_numbers_and_drawn() -> None:
    run = run_batch(FOUR, Order.EASY)
    found = summary(FOUR, run)
    assert found.wait_mean == (0 + 99 + 0 + 147) / 4
    assert found.wait_median == 49.5
    assert found.utilisation == pytest.approx((200 + 200 + 120 + 198) / (4 * 249))
    assert found.slowdown == pytest.approx((1 + 149 / 50 + 1 + 246 / 99) / 4)
    assert "<svg" in batch_chart("four jobs", FOUR, [run])


@given(traces(), st.sampled_from((Order.EASY, Order.CONSERVATIVE)))
@examples(300)
def test_no_job_starts_later_than_it_was_ever_promised(trace: BatchTrace, order: Order) -> None:
    run = run_batch(trace, order)
    assert_within_capacity(trace, run)
    assert run.broken == 0


def test_a_start_is_kept_although_planning_anew_would_be_later() -> None:
    """The second job ends early, so that the third may start before the fourth, which fitted."""
    jobs = [
        BatchJob(0.0, 3.0, 3.0, 2),
        BatchJob(1.0, 2.0, 6.0, 1),
        BatchJob(1.0, 2.0, 3.0, 4),
        BatchJob(1.0, 1.0, 3.0, 3),
    ]
    run = run_batch(BatchTrace(4, jobs), Order.CONSERVATIVE)
    assert run.broken == 0
    assert run.started == [0.0, 1.0, 4.0, 3.0]


def plain_starts(trace: BatchTrace) -> list[float]:
    """Conservative backfill where every job runs to its limit: each takes the first hole for it."""
    starts: list[float] = []
    for job in trace.jobs:
        placed = list(zip(trace.jobs, starts, strict=False))
        times = {job.submitted, *(at + one.limit for one, at in placed)}
        for at in sorted(time for time in times if time >= job.submitted):
            moments = {at, *(start for _, start in placed if at < start < at + job.limit)}
            most = max(
                sum(one.processors for one, s in placed if s <= now < s + one.limit)
                for now in moments
            )
            if most + job.processors <= trace.processors:
                starts.append(at)
                break
    return starts


@given(traces())
@examples(300)
def test_conservative_starts_are_those_of_a_plain_reading(trace: BatchTrace) -> None:
    exact = trace._replace(jobs=[job._replace(runs=job.limit) for job in trace.jobs])
    assert run_batch(exact, Order.CONSERVATIVE).started == plain_starts(exact)


@given(traces())
@examples(300)
def test_the_head_of_an_easy_queue_starts_as_if_none_had_come_behind_it(trace: BatchTrace) -> None:
    exact = trace._replace(jobs=[job._replace(runs=job.limit) for job in trace.jobs])
    run = run_batch(exact, Order.EASY)
    for index, job in enumerate(exact.jobs):
        # It is the head from when the last job before it has started.
        head = max([job.submitted, *run.started[:index]])
        others = [
            (one, at)
            for one, at in zip(exact.jobs, run.started, strict=True)
            if one is not job and at < head
        ]
        first = [
            (one, at)
            for one, at in zip(exact.jobs[:index], run.started, strict=False)
            if at == head
        ]
        alone = plain_first(job, head, [*others, *first], exact.processors)
        assert run.started[index] <= alone


def plain_first(
    job: BatchJob, since: float, running: list[tuple[BatchJob, float]], processors: int
) -> float:
    """When enough of what runs has ended, if nothing else starts."""
    for now in sorted({since, *(at + one.runs for one, at in running)}):
        used = sum(one.processors for one, at in running if at + one.runs > now)
        if now >= since and used + job.processors <= processors:
            return now
    raise AssertionError("the job fits on the empty machine")


def test_a_run_is_a_history_with_a_pod_for_each_job() -> None:
    run = run_batch(FOUR, Order.EASY)
    history = history_of(FOUR, run)
    second = history.pods["1"]
    assert history.seconds == 249.0
    assert (second.created, second.bound, second.ended) == (1.0, 100.0, 150.0)
    assert second.requests == {"processors": 4}
