"""A run goes on when a fault cannot be done."""

from __future__ import annotations

from pathlib import Path

from podsched.lab.chaos.faults.kinds import PlannedFault, named
from podsched.lab.chaos.run import ChaosOptions, Run
from podsched.lib.tasks import TaskSet


async def test_a_fault_without_a_target_is_recorded_as_failed(
    tmp_path: Path,
) -> None:
    history = tmp_path / "history"
    options = ChaosOptions(
        data_dir=tmp_path, seed=1, seconds=60.0, kinds=named(()), history=history
    )
    run = Run(options, TaskSet("test"))
    await run._fault(PlannedFault(0, 0.0, "pause-leader", 1.0, 0.5))
    run._recorder.close()
    assert "no replica leads" in history.read_text()
