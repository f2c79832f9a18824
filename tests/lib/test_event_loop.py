"""The lag of an event loop, and turns on it, at virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND, Turn, watch_lag
from support.eventually import PATIENCE

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
    for _ in range(5):
        work(0.001)  # or the process would count as idle
        await asyncio.sleep(0.005)
    blocked = 0.5  # as if a callback had taken so long, most of it without a processor
    work(0.1)
    await asyncio.sleep(0.01)
    watching.cancel()
    assert lags[0] == pytest.approx((0.0, 0.0))
    assert lags[2] == pytest.approx((0.5, 0.1), abs=0.02)


@pytest.mark.looptime
async def test_samples_leave_no_round_unseen(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = asyncio.get_running_loop()
    clock, blocked = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + blocked)
    lags: list[float] = []

    def block() -> None:
        nonlocal blocked
        blocked += 0.5

    watching = asyncio.create_task(watch_lag(lambda lag, own: lags.append(lag)))
    await asyncio.sleep(0)
    loop.call_later(event_loop.PERIOD, block)  # in the round of the first sample, after it
    await asyncio.sleep(0.05)
    watching.cancel()
    assert sum(lags) > 0.4


@pytest.mark.looptime
async def test_a_process_that_idles_is_woken_by_few_samples(work: Work) -> None:
    lags: list[float] = []
    watching = asyncio.create_task(watch_lag(lambda lag, own: lags.append(lag)))
    await asyncio.sleep(1)
    watching.cancel()
    assert len(lags) == 20


@pytest.mark.looptime
async def test_what_observe_raises_ends_the_watch() -> None:
    def observe(lag: float, own: float) -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await watch_lag(observe)


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


async def test_a_turn_pauses_only_when_it_is_over(work: Work) -> None:
    others = asyncio.create_task(asyncio.sleep(0))
    turn = Turn()
    work(ROUND * 0.9)
    await turn.pause()
    assert not others.done()
    work(ROUND * 0.2)
    await turn.pause()
    assert others.done() and not turn.is_over


async def test_a_turn_that_is_asked_after_each_piece_of_work_is_over_when_its_round_is(
    work: Work,
) -> None:
    """Though most of the answers are given without asking for processor time."""
    turn = Turn()
    pieces = 0
    while not turn.is_over:
        work(ROUND / 100)
        pieces += 1
    assert pieces in (100, 101)  # 100, but for how floats add up
    await turn.give_way()
    pieces = 0
    while not turn.is_over:
        work(ROUND / 100)
        pieces += 1
    assert pieces in (100, 101)


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


async def in_rounds(order: list[str], *tasks: Coroutine[Any, Any, None]) -> list[str]:
    """What tasks add to a list, by the loop's rounds, until all have ended."""
    rounds: list[str] = []

    async def watch() -> None:
        while True:
            rounds.append("".join(order))
            order.clear()
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*tasks)
    watching.cancel()
    return [some for some in (*rounds, "".join(order)) if some]


async def test_who_fills_a_round_and_who_waits_take_turns(work: Work) -> None:
    order: list[str] = []

    async def task(name: str) -> None:
        turn = Turn()
        for _ in range(4):
            work(ROUND * 1.2)
            order.append(name)
            await turn.give_way()

    # Both begin in the first one; neither follows the other in a round that is full.
    rounds = await in_rounds(order, task("a"), task("b"))
    assert rounds == ["ab", "a", "b", "a", "b", "a", "b"]


async def at_once(name: str, seconds: float, order: list[str], work: Work) -> None:
    """Work that goes on until its turn is over."""
    turn = Turn()
    for _ in range(6):
        work(seconds)
        order.append(name)
        if turn.is_over:
            await turn.give_way()


async def as_it_comes(name: str, seconds: float, order: list[str], work: Work) -> None:
    """Work on something that comes in each round."""
    turn = Turn()
    for _ in range(6):
        await asyncio.sleep(0)
        await turn.wait()
        work(seconds)
        order.append(name)
        turn.end()


@given(
    st.lists(
        st.tuples(st.sampled_from([at_once, as_it_comes]), st.sampled_from([30, 60, 70, 90, 120])),
        min_size=2,
        max_size=3,  # more may have waited for as many rounds as a task waits at most
    )
)
def test_in_no_round_of_the_loop_work_begins_after_others_have_filled_it(
    tasks: list[tuple[Any, int]],
) -> None:
    """Whatever tasks there are, and in whatever order they are woken; sizes in % of a round."""
    used, order = 0.0, list[str]()
    size = {str(at): percent for at, (_, percent) in enumerate(tasks)}

    def use(seconds: float) -> None:
        nonlocal used
        used += seconds

    with pytest.MonkeyPatch.context() as patch:
        for clock in ("monotonic", "thread_time"):
            patch.setattr(event_loop, clock, lambda: used)
        parts = (
            task(str(at), percent / 100 * ROUND, order, use)
            for at, (task, percent) in enumerate(tasks)
        )
        rounds = asyncio.run(in_rounds(order, *parts))
    # In the first one, tasks do not wait before they begin.
    assert all(sum(size[name] for name in some[:-1]) <= 100 for some in rounds[1:]), rounds


async def test_a_turn_does_not_begin_in_a_round_that_is_over(work: Work) -> None:
    order: list[str] = []
    turn = Turn()

    async def fills() -> None:
        mine = Turn()
        work(ROUND * 1.2)
        order.append("a")
        mine.end()

    async def waits() -> None:
        await turn.wait()
        order.append("b")

    assert await in_rounds(order, fills(), waits()) == ["a", "b"]


async def test_a_turn_begins_at_last_even_if_other_work_fills_the_rounds(work: Work) -> None:
    began = False

    async def never_waits() -> int:
        rounds = 0
        while not began:
            turn = Turn()
            work(ROUND * 1.2)
            turn.end()
            rounds += 1
            await asyncio.sleep(0)
        return rounds

    async def waits() -> None:
        nonlocal began
        turn = Turn()
        await asyncio.sleep(0)
        await turn.wait()
        began = True

    async with asyncio.timeout(PATIENCE):
        rounds, _ = await asyncio.gather(never_waits(), waits())
    assert 3 <= rounds <= 8
