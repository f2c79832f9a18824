"""Processes that are paused go on when the block ends."""

from __future__ import annotations

from signal import Signals
from typing import Any

import pytest

from podsched.lab.chaos.faults.kinds import KINDS


class Processes:
    """A system that notes which process gets which signal."""

    leader = "scheduler-0"
    standbys = ("scheduler-1", "scheduler-2")

    def __init__(self) -> None:
        self.sent: list[tuple[str, Signals]] = []

    def process(self, name: str) -> Any:
        class Named:
            def kill(_, signal: Signals) -> None:
                self.sent.append((name, signal))

        return Named()


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("pause-leader", "scheduler-0"),
        ("pause-standby", "scheduler-2"),
        ("hang-api", "apiserver-1"),
        ("silent-agent", "agent"),
    ],
)
async def test_a_process_is_stopped_until_the_block_ends(fault: str, name: str) -> None:
    system: Any = Processes()
    async with KINDS[fault].inject(system, 0.9) as told:
        assert (told, system.sent) == (f"SIGSTOP {name}", [(name, Signals.SIGSTOP)])
    assert system.sent[1:] == [(name, Signals.SIGCONT)]


async def test_a_fault_without_anybody_to_do_it_to_is_a_lookup_error() -> None:
    system: Any = Processes()
    system.standbys = ()
    with pytest.raises(LookupError, match="none to choose"):
        async with KINDS["pause-standby"].inject(system, 0.0):
            pass
