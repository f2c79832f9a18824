"""What ``sched bench`` refuses before it starts anything, and how it ends if it cannot go on."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path

import pytest

from podsched.serve.client.errors import Unavailable
from support.commands import Commands

sched = Commands()
RUN = "podsched.cli.bench.run_and_tidy_up"


@pytest.fixture(autouse=True)
def _nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUN, lambda _: pytest.fail("something was started"))


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


def test_a_server_that_cannot_be_reached_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(measuring: Coroutine[object, object, object]) -> None:
        measuring.close()
        raise Unavailable("https://a.example: no answer")

    monkeypatch.setattr(RUN, run)
    done = sched("bench", "compare", f"--control-plane={tmp_path}")
    assert (done.code, done.errors[-1]) == (3, "error: https://a.example: no answer")
