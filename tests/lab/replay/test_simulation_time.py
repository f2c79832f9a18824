"""The event loop whose time is virtual."""

from __future__ import annotations

import asyncio
import time

import pytest

from podsched.lab.replay.simulation import Stuck, run_in_virtual_time


def test_hours_pass_at_once_and_in_order() -> None:
    order: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append((name, asyncio.get_running_loop().time()))

    async def work() -> None:
        await asyncio.gather(wait("late", 7200.0), wait("early", 3600.0))

    began = time.monotonic()
    run_in_virtual_time(work())
    assert order == [("early", pytest.approx(3600.0)), ("late", pytest.approx(7200.0))]
    assert time.monotonic() - began < 600, "not the hours themselves"


def test_waiting_for_what_never_happens_is_an_error_and_no_hang() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        run_in_virtual_time(work())


def test_no_time_passes_while_a_thread_would_work() -> None:
    async def work() -> tuple[str, float]:
        ticking = asyncio.create_task(asyncio.sleep(10.0))
        found = await asyncio.to_thread(lambda: time.sleep(0.05) or "done")
        at = asyncio.get_running_loop().time()
        await ticking
        return found, at

    assert run_in_virtual_time(work()) == ("done", 0.0)


def test_what_a_thread_would_raise_is_raised() -> None:
    async def work() -> None:
        await asyncio.to_thread(lambda: [][0])

    with pytest.raises(IndexError):
        run_in_virtual_time(work())
