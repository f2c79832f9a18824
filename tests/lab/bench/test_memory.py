"""Memory is read from /proc, and its growth is that of most rounds."""

from __future__ import annotations

import os

import pytest

from podsched.lab.bench.memory import growth, memory_of, memory_of_session, memory_of_status
from support.processes import python_in_own_session

STATUS = """Name:\tpython
VmRSS:\t  300000 kB
RssAnon:\t  100000 kB
RssFile:\t  150000 kB
RssShmem:\t   50000 kB
"""


def test_mapped_files_are_not_counted() -> None:
    assert memory_of_status(STATUS) == 150_000 * 1024


def test_processes_that_do_not_exist_are_left_out() -> None:
    found = memory_of({"me": os.getpid(), "nobody": None})
    assert set(found) == {"me"} and found["me"] > 1 << 20


@pytest.mark.integration
def test_processes_of_a_session_are_added_up_by_program() -> None:
    with python_in_own_session() as session:
        [size] = memory_of_session(session).values()
        assert size > 1 << 20


def test_no_session_has_no_processes() -> None:
    assert memory_of_session(None) == {}


def test_growth_is_bytes_per_pod() -> None:
    assert growth([(0, 100), (10, 150), (20, 200)]) == pytest.approx(5)


def test_a_single_peak_is_no_growth() -> None:
    points = [(float(n), 100.0) for n in range(10)]
    points[7] = (7.0, 1e9)
    assert growth(points) == 0


def test_one_reading_has_no_growth() -> None:
    assert growth([(1, 100)]) == 0
