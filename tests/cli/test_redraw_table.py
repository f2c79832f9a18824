from __future__ import annotations

import asyncio
import signal

import pytest

from podsched.api.objects import Event, Pod
from podsched.cli.formats import Format, Printer
from podsched.cli.redraw import WatchedTable, redrawn
from podsched.serve.client.object_watch import Change, ChangeType


def pod(name: str, phase: str = "Pending") -> Pod:
    found = Pod()
    found.metadata.name, found.metadata.namespace = name, "default"
    found.status.phase = phase
    return found


def table(*names: str) -> WatchedTable:
    return WatchedTable([pod(name) for name in names], lambda: Printer(Format("table")))


def shown(watched: WatchedTable, height: int = 24) -> list[list[str]]:
    return [line.split()[:2] for line in watched.lines(80, height)]


def test_rows_change_in_their_places() -> None:
    watched = table("a", "b")
    watched.apply(Change(ChangeType.MODIFIED, pod("a", "Running"), 2))
    watched.apply(Change(ChangeType.ADDED, pod("c"), 3))
    assert shown(watched)[1:] == [["a", "Running"], ["b", "Pending"], ["c", "Pending"]]


def test_the_rows_of_deleted_objects_go() -> None:
    watched = table("a", "b")
    watched.apply(Change(ChangeType.DELETED, pod("a"), 2))
    assert shown(watched)[1:] == [["b", "Pending"]]
    watched.apply(Change(ChangeType.DELETED, pod("b"), 3))
    assert watched.lines(80, 24) == ["No resources found."]


def test_where_not_all_fit_those_that_changed_last_are_shown() -> None:
    watched = table("a", "b", "c", "d", "e")
    watched.apply(Change(ChangeType.MODIFIED, pod("a", "Running"), 2))
    lines = shown(watched, 5)
    assert [line[0] for line in lines] == ["NAME", "a", "e", "..."]
    assert watched.lines(80, 5)[-1] == "... 3 more, unchanged for longer"


def test_where_rows_take_several_lines_those_that_changed_last_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    def event(name: str) -> Event:
        found = Event(type="Warning", reason="FailedScheduling", message=f"{name} " + "word " * 30)
        found.metadata.name = name
        return found

    watched = WatchedTable(map(event, "abcd"), lambda: Printer(Format("table")))
    watched.apply(Change(ChangeType.ADDED, event("e"), 2))
    lines = watched.lines(80, 16)
    assert len(lines) < 16
    assert [line.split()[3] for line in lines if "Warning" in line] == ["d", "e"]
    assert lines[-1] == "... 3 more, unchanged for longer"


def test_sigterm_leaves_the_terminal_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # With these, rich takes standard output for a terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)

    async def drawn() -> None:
        async with redrawn(lambda width, height: ["nodes"], 60.0, whole_screen=True):
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda number, frame: pytest.fail("not handled"))
    try:
        with pytest.raises(SystemExit) as end:
            asyncio.run(drawn())
    finally:
        signal.signal(signal.SIGTERM, before)
    out = capsys.readouterr().out
    assert end.value.code == 143
    assert "\x1b[?1049h" in out and out.endswith("\x1b[?25h\x1b[?1049l")
