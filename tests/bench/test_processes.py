"""CPU time of processes."""

from __future__ import annotations

import os

import pytest

from podsched.bench.processes import cpu_seconds, cpu_seconds_of, spent


def test_cpu_time_is_read_whatever_a_process_is_called() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    stat = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 1 1"
    assert cpu_seconds_of(stat) == pytest.approx(300 / tick)
    assert set(cpu_seconds({"me": os.getpid(), "nobody": None})) == {"me"}
    assert spent({"a": 1.0}, {"a": 3.0, "new": 1.0}, 1000) == {"a": 2000.0}
