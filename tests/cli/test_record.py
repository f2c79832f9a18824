"""``sched record``: a running cluster's history in a file."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path

import pytest

from podsched.lab.replay.recording import RecordingWriter, read_recording
from support.command_client import CommandClient
from support.commands import Commands
from support.recordings import a_node


def test_a_server_that_is_not_there_leaves_no_file(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "a.rec"
    done = sched("record", str(file), "--server", "127.0.0.1:1")
    assert done.code == 3
    assert not file.exists()


def test_a_file_that_exists_is_not_overwritten(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "a.rec"
    file.write_text("precious")
    done = sched("record", str(file))
    assert done.code == 2
    assert "the file exists" in done.err
    assert file.read_text() == "precious"


def test_what_has_been_recorded_stays_if_the_disk_is_full_in_the_end(
    in_memory: CommandClient, sched: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    in_memory.cluster.create(a_node("n1"))
    monkeypatch.setattr(RecordingWriter, "close", full)
    file = tmp_path / "a.rec"
    assert sched("record", str(file), "--for", "50ms").code == 1
    assert [node.metadata.name for node in read_recording(file).objects] == ["n1"]
