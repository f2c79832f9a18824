"""What ``sched bench`` refuses before it starts anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.commands import Commands

sched = Commands()


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "run", lambda _: pytest.fail("something was started"))


@pytest.mark.parametrize("workload", ["SchedulingBasic", "all", "compare"])
@pytest.mark.parametrize("option", ["--nodes", "--pods", "--first"])
def test_too_many_nodes_or_pods_are_refused(tmp_path: Path, workload: str, option: str) -> None:
    done = sched("bench", workload, option, "3000000", f"--control-plane={tmp_path}")
    assert done.code == 2
    assert done.errors == [f"error: {option}: must be at most 2,000,000"]


def test_a_chart_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    chart = tmp_path / "missing" / "chart.svg"
    done = sched("bench", "SchedulingBasic", "--plot", str(chart))
    assert (done.code, done.errors) == (1, [f"error: --plot {chart}: No such file or directory"])
