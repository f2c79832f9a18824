"""Clocks of processes are as many seconds ahead as their files say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from podsched.lab.chaos import clocks as module
from podsched.lab.chaos.clocks import Clocks


def test_steps_of_one_clock_add_up_and_leave_others_alone(tmp_path: Path) -> None:
    clocks = Clocks("/lib/libfaketimeMT.so.1", tmp_path)
    files = [
        Path(clocks.environment(name)["FAKETIME_TIMESTAMP_FILE"])
        for name in ("scheduler-0", "scheduler-1")
    ]
    said = [files[0].read_text()]
    for step in (600, -7_200, -600, 7_200):
        clocks.step("scheduler-0", step)
        said.append(files[0].read_text())
    assert said == ["+0\n", "+600\n", "-6600\n", "-7200\n", "+0\n"]
    assert files[1].read_text() == "+0\n"


def test_the_monotonic_clock_is_left_alone(tmp_path: Path) -> None:
    environment = Clocks("/lib/libfaketimeMT.so.1", tmp_path).environment("scheduler-0")
    assert environment["LD_PRELOAD"] == "/lib/libfaketimeMT.so.1"
    assert environment["FAKETIME_DONT_FAKE_MONOTONIC"] == "1"


def test_what_libfaketime_leaves_of_killed_processes_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SHARED", tmp_path)
    ended, alive = 1 << 30, os.getpid()  # No process has such a large number.
    mine = [f"faketime_shm_{ended}", f"sem.faketime_sem_{ended}"]
    kept = [f"faketime_shm_{alive}", f"sem.faketime_sem_{ended + 1}", f"other_{ended}"]
    (tmp_path / kept[1]).touch()  # It was left of something else before.
    clocks = Clocks("/lib/libfaketimeMT.so.1", tmp_path)
    for name in (*mine, *kept):
        (tmp_path / name).touch()
    clocks.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
