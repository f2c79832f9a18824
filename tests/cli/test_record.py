"""``sched record``: a running cluster's history in a file."""

from __future__ import annotations

from pathlib import Path

from support.commands import Commands


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
