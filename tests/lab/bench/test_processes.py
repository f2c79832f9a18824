"""CPU time and memory are read from /proc, and growth is that of most rounds."""

from __future__ import annotations

import os

import pytest

from podsched.lab.bench.processes import (
    Usage,
    growth,
    memory_of,
    spent,
    usage_in,
    usage_of,
    usage_of_session,
)
from support.processes import python_in_own_session

STAT = "12 (a) b (c) S 1 12 12 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 1 1"
STATUS = """Name:\tpython
VmRSS:\t  300000 kB
RssAnon:\t  100000 kB
RssFile:\t  150000 kB
RssShmem:\t   50000 kB
"""


def test_cpu_time_is_read_whatever_a_process_is_called_and_mapped_files_are_not_counted() -> None:
    cpu, memory = usage_in(STAT, STATUS)
    assert cpu == pytest.approx(300 / os.sysconf("SC_CLK_TCK"))
    assert memory == 150_000 * 1024


def test_processes_that_do_not_exist_are_left_out() -> None:
    pids = {"me": os.getpid(), "nobody": None}
    assert set(usage_of(pids)) == set(memory_of(pids)) == {"me"}
    assert memory_of(pids)["me"] > 1 << 20


def test_what_a_process_spent_is_told_per_pod() -> None:
    after = {"a": Usage(3.0), "new": Usage(1.0)}
    assert spent({"a": Usage(1.0)}, after, 1000) == {"a": 2000.0}


@pytest.mark.integration
def test_processes_of_a_session_are_added_up_by_program() -> None:
    with python_in_own_session() as session:
        [usage] = usage_of_session(session).values()
        assert usage.memory > 1 << 20 and usage.cpu >= 0


def test_no_session_has_no_processes() -> None:
    assert usage_of_session(None) == {}


def test_growth_is_bytes_per_pod() -> None:
    assert growth([(0, 100), (10, 150), (20, 200)]) == pytest.approx(5)


def test_a_single_peak_is_no_growth() -> None:
    points = [(float(n), 100.0) for n in range(10)]
    points[7] = (7.0, 1e9)
    assert growth(points) == 0


def test_one_reading_has_no_growth() -> None:
    assert growth([(1, 100)]) == 0
