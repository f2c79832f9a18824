"""Small files that others replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from podsched.lib.changing_file import ChangingFile


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_new_contents_are_seen_within_a_second(tmp_path: Path) -> None:
    path, clock = tmp_path / "file", Clock()
    path.write_text("one")
    file = ChangingFile(str(path), clock)
    path.write_text("other")
    assert not file.changed(), "not looked at yet"
    clock.now = 1.0
    assert file.changed()
    assert file.content == b"other"
    clock.now = 2.0
    assert not file.changed()


def test_a_file_that_is_replaced_by_one_of_equal_size_is_seen(tmp_path: Path) -> None:
    path, clock = tmp_path / "file", Clock()
    path.write_text("one")
    file = ChangingFile(str(path), clock)
    other = tmp_path / "other"
    other.write_text("two")
    os.utime(other, ns=(path.stat().st_mtime_ns,) * 2)
    other.replace(path)
    clock.now = 1.0
    assert file.changed()


def test_a_file_that_is_gone_or_too_large_leaves_the_contents(tmp_path: Path) -> None:
    path, clock = tmp_path / "file", Clock()
    path.write_text("one")
    file = ChangingFile(str(path), clock)
    path.unlink()
    clock.now = 1.0
    assert not file.changed()
    path.write_bytes(b"x" * (5 << 20))
    clock.now = 2.0
    assert not file.changed()
    assert file.content == b"one"


def test_a_file_that_is_not_there_at_first_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ChangingFile(str(tmp_path / "nothing"))
