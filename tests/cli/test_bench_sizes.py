"""``sched bench`` with more nodes or pods than a workload may have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.commands import Commands

sched = Commands()


@pytest.mark.parametrize("workload", ["SchedulingBasic", "all", "compare"])
@pytest.mark.parametrize("option", ["--nodes", "--pods", "--first"])
def test_too_many_nodes_or_pods_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workload: str, option: str
) -> None:
    monkeypatch.setattr(asyncio, "run", lambda _: pytest.fail("something was started"))
    done = sched("bench", workload, option, "3000000", f"--control-plane={tmp_path}")
    assert done.code == 2
    assert done.errors == [f"error: {option}: must be at most 2,000,000"]
