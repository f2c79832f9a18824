"""What is told while a system is broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsched.cli.chaos import progress
from podsched.lab.chaos.run import Status

STATUS = Status("breaking", 12.34, 4.3, (), "scheduler-1", 40, 2)


def test_a_pipe_gets_a_line_whenever_something_else_is_broken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress(60) as tell:
        tell(STATUS)
        tell(replace(STATUS, now=12.6, bound=41))
        tell(replace(STATUS, now=13.0, leader="", broken=("etcd-1 is down", "SIGSTOP agent")))
        tell(replace(STATUS, now=14.0, stage="settling"))
    out, err = capsys.readouterr()
    assert not out
    assert err.splitlines() == [
        "   12.3 s  breaking  scheduler-1, 40 bound, 2 waiting | nothing is broken",
        "   13.0 s  breaking  no leader, 40 bound, 2 waiting | etcd-1 is down; SIGSTOP agent",
        "   14.0 s  settling  scheduler-1, 40 bound, 2 waiting | nothing is broken",
    ]
