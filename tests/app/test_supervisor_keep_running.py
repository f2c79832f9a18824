"""etcd and Ray are started again whenever they end, more and more slowly while they keep ending."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from podsched.app.supervisor import LONGEST_RESTART_PAUSE, STEADY_AFTER, keep_running

pytestmark = pytest.mark.looptime


class Unlucky(Exception):
    """It did not start."""


class Machine:
    """Runs for the given times, one after another; None: does not start at all."""

    def __init__(self, *runs: float | None) -> None:
        self._runs = list(runs)
        self._current: float | None = 0.0
        self.starts: list[float] = []

    async def start(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        self._current = self._runs.pop(0) if self._runs else 10**6
        if self._current is None:
            raise Unlucky("out of luck")

    async def wait(self) -> str:
        assert self._current is not None, "it was not started"
        await asyncio.sleep(self._current)
        return "ended"


async def keep(machine: Machine, seconds: float, **options: Any) -> list[str]:
    """Keep it running for so many seconds; return the warnings."""
    warnings: list[str] = []
    keeping = keep_running("the machine", machine, Unlucky, warnings.append, **options)
    keeper = asyncio.create_task(keeping)
    await asyncio.sleep(seconds)
    assert not keeper.done()
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
    return warnings


async def test_what_ends_is_started_again_and_a_start_that_fails_is_repeated() -> None:
    machine = Machine(None, None, 3.0)
    warnings = await keep(machine, 100)
    ended, failed = "the machine ended: starting it again", "out of luck; trying again"
    assert warnings == [ended, failed, failed, ended]
    assert len(machine.starts) == 4


async def test_the_pauses_grow_to_a_bound_and_begin_anew_after_a_steady_time() -> None:
    failing = [None] * 12
    machine = Machine(*failing, STEADY_AFTER + 1.0)
    await keep(machine, 200)
    pauses = [later - earlier for earlier, later in pairwise(machine.starts)]
    assert pauses[0] < 0.5
    assert all(pause >= LONGEST_RESTART_PAUSE / 2 for pause in pauses[7:11])
    assert all(pause <= LONGEST_RESTART_PAUSE for pause in pauses[:11])
    assert pauses[-1] < STEADY_AFTER + 1.0 + 0.5


async def test_a_part_whose_first_start_failed_is_started_again_in_pauses_up_to_its_own_bound() -> (
    None
):
    machine = Machine(*[None] * 20)
    warnings = await keep(machine, 600, runs=False, longest_pause=60.0)
    assert set(warnings) == {"out of luck; trying again"}
    pauses = [later - earlier for earlier, later in pairwise(machine.starts)]
    assert machine.starts[0] < 0.5
    assert all(30 <= pause <= 60 for pause in pauses[9:])
