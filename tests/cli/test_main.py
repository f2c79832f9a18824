"""How the console command ends."""

from __future__ import annotations

import errno
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from podsched.cli.main import main
from support.command_client import CommandClient
from support.engine_world import node


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


class ReadOnly(io.StringIO):
    """Standard output whose reader ends before the last output is flushed."""

    def flush(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_command_that_failed_has_failed_although_nobody_reads_its_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("podsched.cli.main.app", lambda **_: 1)
    monkeypatch.setattr("podsched.cli.main.discard_output", lambda: None)
    with redirect_stdout(ReadOnly()), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1


@pytest.mark.parametrize("words", ["get pod/none", "cordon a b", "get -o nothing pods"])
def test_a_command_that_failed_has_failed_although_nobody_reads_its_errors(
    monkeypatch: pytest.MonkeyPatch, in_memory: CommandClient, words: str
) -> None:
    in_memory.cluster.create(node("a"))
    monkeypatch.setattr(sys, "argv", ["sched", *words.split()])
    with (
        redirect_stdout(ClosedPipe()),
        redirect_stderr(ClosedPipe()),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code in (1, 2)


def test_what_is_not_waited_for_as_nobody_reads_the_output_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, in_memory: CommandClient
) -> None:
    in_memory.cluster.create(node("a"))
    words = ["sched", "wait", "node/a", "node/none", "--for=create"]
    monkeypatch.setattr(sys, "argv", words)
    with redirect_stdout(ClosedPipe()), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1


@pytest.mark.parametrize("command", ["cordon", "drain"])
def test_objects_that_are_not_written_as_nobody_reads_the_output_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, in_memory: CommandClient, command: str
) -> None:
    for name in ("a", "b"):
        in_memory.cluster.create(node(name))
    monkeypatch.setattr(sys, "argv", ["sched", command, "a", "b"])
    with (
        redirect_stdout(ClosedPipe()),
        redirect_stderr(io.StringIO()) as said,
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert "patch Node b" not in in_memory.calls
    assert ended.value.code == 1
    assert said.getvalue() == "error: the reader of the output has ended; the rest was not done\n"
