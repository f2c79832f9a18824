"""A whole system is broken as a seed plans it, and keeps every promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.chaos.clocks import library
from podsched.chaos.faults.kinds import Need, named
from podsched.chaos.history import load
from podsched.chaos.outcome import judge
from podsched.chaos.records import Outcome
from podsched.chaos.run import ChaosOptions, run_chaos

pytestmark = pytest.mark.integration

SEED, SECONDS = 7, 120.0


async def test_every_promise_is_kept_whatever_breaks(tmp_path: Path) -> None:
    kinds = named([Need.CLOCKS] if library() else [])
    path = tmp_path / "history.jsonl"
    await run_chaos(ChaosOptions(SEED, SECONDS, kinds, tmp_path, path))
    outcome = judge(load(path))
    assert not outcome.violations, "\n".join(map(str, outcome.violations))
    assert outcome.faults.total() >= 16, outcome.as_dict()
    assert outcome.calls[Outcome.OK] > 200, outcome.as_dict()
    assert len(outcome.bound_at) > 100, outcome.as_dict()
    assert outcome.history.end is not None
