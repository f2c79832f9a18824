"""How the console command ends."""

from __future__ import annotations

import errno
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from podsched.cli.main import main


class ClosedPipe(io.StringIO):
    """Standard output after its reader has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, f"Broken pipe: {text}")


@pytest.mark.parametrize("arguments", ["config default", "simulate --scenarios FILE"])
def test_a_reader_that_has_read_enough_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str
) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text("{}\n")
    monkeypatch.setattr(sys, "argv", ["sched", *arguments.replace("FILE", str(cases)).split()])
    with (
        redirect_stdout(ClosedPipe()),
        redirect_stderr(io.StringIO()) as said,
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == 0
    assert said.getvalue() == ""
