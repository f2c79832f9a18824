"""Files of manifests, and the other files that commands are given."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from support.commands import Commands

ENDLESS = "/dev/zero"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("apply", "-f"), "more than 128 MiB"),
        (("plan", "-f"), "more than 128 MiB"),
        (("explain", "pod", "web", "-f"), "more than 128 MiB"),
        (("headroom", "--cluster"), "more than 128 MiB"),
        (("simulate", "--bundle"), "more than 256 MiB"),
        (("replay",), "not a recording"),
        (("snapshot", "status"), "not a regular file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_command_ends_whatever_file_it_is_given(
    sched: Commands, command: tuple[str, ...], said: str
) -> None:
    done = sched(*command, ENDLESS)
    assert done.code in (1, 2)
    [line] = done.errors
    assert line.startswith(f"error: {ENDLESS}") and said in line


def test_a_binary_file_is_said_to_be_no_text(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(b"kind\xff")
    assert sched("apply", "-f", str(file)).errors == [f"error: {file}: not UTF-8 text (byte 5)"]


def test_a_file_without_objects_is_named(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("# later\n")
    assert sched("apply", "-f", str(file)).errors == [f"error: {file}: no objects"]


def test_standard_input_without_objects_is_named(sched: Commands) -> None:
    assert sched("apply", "-f", "-").errors == ["error: standard input: no objects"]


def test_a_trace_of_one_endless_line_is_refused(sched: Commands, tmp_path: Path) -> None:
    (tmp_path / "vmtable.csv.gz").write_bytes(gzip.compress(bytes(9 << 20), 1))
    done = sched("replay", str(tmp_path), "--trace", "azure")
    assert done.code == 2
    [line] = done.errors
    assert "vmtable.csv.gz: line 1: more than 1 MiB in a line" in line


def test_a_url_is_not_taken_for_a_file(sched: Commands) -> None:
    done = sched("apply", "-f", "https://example.com/web.yaml")
    assert done.code == 2
    said = "not a file: use curl -fsSL URL | sched ... -f -"
    assert done.errors == [f"error: https://example.com/web.yaml: {said}"]


@pytest.mark.parametrize("command", ["apply", "create", "delete"])
def test_an_empty_name_does_not_mean_the_current_directory(
    sched: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It is that of a variable which a script has not set."""
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: web}}")
    monkeypatch.chdir(tmp_path)
    done = sched(command, "-f", "", "--server", "127.0.0.1:1")
    assert (done.code, done.errors) == (2, ['error: "" is not the name of a file'])
