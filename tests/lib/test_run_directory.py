"""A run's directory is its user's alone, and gone after the run, however the run ended."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from podsched.lib.run_directory import RunDirectory, UnsafeDirectory


def own_parent(root: Path) -> Path:
    return root / f"podsched-{os.getuid()}"


def test_what_is_opened_to_the_world_stays_behind_a_parent_that_is_not(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        directory = RunDirectory("ray", tmp_path)
    finally:
        os.umask(umask)
    directory.path.chmod(0o777)
    parent = directory.path.parent.lstat()
    assert stat.S_IMODE(parent.st_mode) == 0o700
    assert parent.st_uid == os.getuid()


def test_a_parent_that_is_a_link_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    (target / "kept").mkdir()
    own_parent(tmp_path).symlink_to(target)
    with pytest.raises(UnsafeDirectory, match="is not a directory"):
        RunDirectory("ray", tmp_path)
    assert [entry.name for entry in target.iterdir()] == ["kept"]


def test_a_parent_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_parent(tmp_path).mkdir(mode=0o700)
    found = own_parent(tmp_path)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    found.rename(own_parent(tmp_path))
    with pytest.raises(UnsafeDirectory, match="belongs to another user"):
        RunDirectory("ray", tmp_path)


def test_a_parent_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    own_parent(tmp_path).mkdir()
    own_parent(tmp_path).chmod(0o711)
    with pytest.raises(UnsafeDirectory, match="is open to other users"):
        RunDirectory("ray", tmp_path)


def test_a_run_removes_its_directory_but_not_what_links_in_it_lead_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    directory = RunDirectory("ray", tmp_path)
    (directory.path / "link").symlink_to(outside)
    (directory.path / "session" / "sockets").mkdir(parents=True)
    directory.clear()
    assert not list(directory.path.iterdir())
    (directory.path / "link").symlink_to(outside)
    directory.remove()
    directory.remove()
    assert not directory.path.exists()
    assert (outside / "file").exists()


def test_what_a_killed_run_left_is_removed_by_the_next_and_that_of_a_live_one_is_not(
    tmp_path: Path,
) -> None:
    living = RunDirectory("ray", tmp_path)
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from podsched.lib.run_directory import RunDirectory\n"
        "made = RunDirectory('ray', Path(sys.argv[1]))\n"
        "(made.path / 'file').touch(); print(made.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    assert (left / "file").exists()

    following = RunDirectory("ray", tmp_path)
    assert not left.exists()
    assert living.path.exists() and following.path.exists()
