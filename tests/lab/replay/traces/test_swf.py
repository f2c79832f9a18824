"""Logs in the Standard Workload Format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from podsched.lab.replay.traces import swf
from podsched.lab.replay.traces.builder import BadTrace
from podsched.lab.replay.traces.swf import BatchJob

#: job, submitted, waited, ran, allocated, cpu, memory, requested, time, and nine more
TABLE = """\
; Computer: made up
; MaxProcs: 8
1 100 5 60 4 -1 -1 4 120 -1 1 1 1 1 1 1 -1 -1
2 110 5 90 4 -1 -1 -1 60 -1 1 1 1 1 1 1 -1 -1

3 130 -1 -1 -1 -1 -1 4 60 -1 5 1 1 1 1 1 -1 -1
4 150 5 30 2 -1 -1 2 -1 -1 1 1 1 1 1 1 -1 -1
"""


def test_jobs_that_ran_are_read_with_their_size_run_time_and_limit(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    file.write_text(TABLE)
    found = swf.read(file, 1000.0)
    assert found.processors == 8
    assert found.jobs == [
        BatchJob(0.0, 60.0, 120.0, 4),
        BatchJob(10.0, 60.0, 60.0, 4),
        BatchJob(50.0, 30.0, 30.0, 2),
    ]


def test_a_compressed_log_is_read_up_to_a_time(tmp_path: Path) -> None:
    file = tmp_path / "log.swf.gz"
    file.write_bytes(gzip.compress(TABLE.encode()))
    assert len(swf.read(file, 10.0).jobs) == 2


def test_a_log_of_too_many_jobs_is_read_up_to_a_time_with_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swf, "MAX_PODS", 2)
    file = tmp_path / "log.swf"
    file.write_text(TABLE)
    assert len(swf.read(file, 10.0).jobs) == 2
    with pytest.raises(BadTrace, match=r"more than 2 jobs: read less of the trace \(--for\)"):
        swf.read(file, 1000.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 100 5 60\n", "line 1: 4 fields"),
        ("; only a comment\n", "no job that ran"),
        ("1 x 5 60 4 -1 -1 4 120\n", 'line 1: field 2: "x" is not a number'),
    ],
)
def test_a_log_that_does_not_fit_the_format_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "log.swf"
    file.write_text(text)
    with pytest.raises(BadTrace, match=message):
        swf.read(file, 1000.0)
