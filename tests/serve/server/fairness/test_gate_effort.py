"""What a thread has had of a processor."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from podsched.serve.server.fairness import gate
from podsched.serve.server.fairness.gate import processor_time_of_thread


def test_work_is_effort() -> None:
    before = processor_time_of_thread()
    while time.thread_time() < before.used + 0.01:
        pass
    after = processor_time_of_thread()
    assert after.used >= before.used + 0.01
    assert after.delayed >= before.delayed >= 0


def test_without_schedstat_the_thread_counts_as_not_having_waited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gate, "_SCHEDSTAT", tmp_path / "absent")
    assert processor_time_of_thread().delayed == 0
