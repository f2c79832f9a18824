"""Reading a file that a user names ends, whatever it is."""

from __future__ import annotations

import os
import stat
import threading
import tracemalloc
from pathlib import Path

import pytest

from podsched.lib import files
from podsched.lib.files import FileTooLarge, open_file, read_file, write_private


def test_a_file_is_read_up_to_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 100)
    assert read_file(file, 100) == b"x" * 100
    with pytest.raises(FileTooLarge, match="more than"):
        read_file(file, 99)


def test_a_small_file_takes_little_memory_whatever_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "small"
    file.write_bytes(b"x" * 1000)
    tracemalloc.start()
    read_file(file, 1 << 30)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        read_file(tmp_path, 100)
    assert caught.value.filename == str(tmp_path)


def test_what_never_ends_is_too_large() -> None:
    with pytest.raises(FileTooLarge, match="more than 1 MiB"):
        read_file(Path("/dev/zero"), 1 << 20)


def test_a_named_pipe_without_a_writer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_TIMEOUT", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no writer opened this pipe"):
        read_file(pipe, 100)


def test_a_named_pipe_is_read_until_its_writer_closes_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 200_000,))
    writer.start()
    assert len(read_file(pipe, 1 << 20)) == 200_000
    writer.join()


def test_a_pipe_of_a_shell_is_read(tmp_path: Path) -> None:
    """As of ``sched apply -f <(...)``, which passes /dev/fd/63."""
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    assert read_file(Path(f"/dev/fd/{reading}"), 100) == b"content"
    os.close(reading)


def test_a_missing_file_and_a_directory_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, 10)


def test_a_private_file_is_the_owners_alone_even_if_others_could_read_it_before(
    tmp_path: Path,
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("old and longer")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_made_private_keeps_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refuse)
    file = tmp_path / "kubeconfig"
    file.write_text("old")
    with pytest.raises(PermissionError):
        write_private(file, "new")
    assert file.read_text() == "old"
