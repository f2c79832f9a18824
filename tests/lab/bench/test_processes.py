"""CPU time of processes."""

from __future__ import annotations

import os

import pytest

from podsched.lab.bench.processes import cpu_seconds, cpu_seconds_of, cpu_seconds_of_session, spent
from support.processes import python_in_own_session


def test_cpu_time_is_read_whatever_a_process_is_called() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    stat = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 1 1"
    assert cpu_seconds_of(stat) == pytest.approx(300 / tick)
    assert set(cpu_seconds({"me": os.getpid(), "nobody": None})) == {"me"}
    assert spent({"a": 1.0}, {"a": 3.0, "new": 1.0}, 1000) == {"a": 2000.0}


@pytest.mark.integration
def test_the_processes_of_a_session_are_added_up_by_what_they_say_they_are() -> None:
    with python_in_own_session() as session:
        [seconds] = cpu_seconds_of_session(session).values()
        assert seconds >= 0


def test_no_session_has_spent_nothing() -> None:
    assert cpu_seconds_of_session(None) == {}
