"""The lag of an event loop, and turns on it, at virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND, Turn, watch_lag

Work = Callable[[float], None]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """What uses so many seconds of processor time."""
    used = 0.0

    def use(seconds: float) -> None:
        nonlocal used
        used += seconds

    for clock in ("monotonic", "process_time", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: used)
    return use


@pytest.mark.looptime
async def test_a_block_is_seen_by_the_next_sample_and_told_from_what_others_took(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop: Any = asyncio.get_running_loop()
    clock, blocked = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + blocked)
    lags: list[tuple[float, float]] = []
    watching = asyncio.create_task(watch_lag(lambda *lag: lags.append(lag)))
    await asyncio.sleep(0.025)
    blocked = 0.5  # as if a callback had taken so long, most of it without a processor
    work(0.1)
    await asyncio.sleep(0.01)
    watching.cancel()
    assert lags[0] == pytest.approx((0.0, 0.0))
    assert lags[2] == pytest.approx((0.5, 0.1), abs=0.02)


async def test_a_turn_is_over_when_its_work_has_filled_a_round(work: Work) -> None:
    turn = Turn()
    work(ROUND * 0.9)
    assert not turn.is_over
    work(ROUND * 0.2)
    assert turn.is_over
    assert turn.has_lasted(ROUND) and not turn.has_lasted(ROUND * 1.2)
    await turn.give_way()
    assert not turn.is_over
    assert not turn.has_lasted(0)


async def test_time_that_others_took_is_no_part_of_a_turn(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn()
    monkeypatch.setattr(event_loop, "monotonic", lambda: 5.0)
    work(ROUND * 0.9)
    assert not turn.has_lasted(ROUND)


async def test_tasks_share_a_round(work: Work) -> None:
    order: list[str] = []

    async def task(name: str) -> None:
        turn = Turn()
        for _ in range(3):
            work(ROUND * 0.6)
            order.append(name)
            if turn.is_over:
                await turn.give_way()

    await asyncio.gather(task("a"), task("b"))
    # Where a has filled the round, b gives way after what cannot be divided; then they share one.
    assert order == ["a", "a", "b", "a", "b", "b"]
