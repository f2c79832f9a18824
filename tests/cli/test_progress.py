from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from podsched.cli.progress import progress_bar, working


class Terminal(io.StringIO):
    """A standard error that somebody looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def test_a_pipe_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("pods", 1000) as advance, working("saving", counted=True) as tell:
        advance()
        tell(5)
    assert capsys.readouterr() == ("", "")


def test_many_steps_are_counted_on_a_terminal(terminal: Terminal) -> None:
    with redirect_stderr(terminal), progress_bar("pods", 200) as advance:
        for _ in range(200):
            advance()
    assert "200/200" in terminal.getvalue()


def test_few_steps_have_no_bar_unless_each_takes_long(terminal: Terminal) -> None:
    with redirect_stderr(terminal), progress_bar("pods", 3) as advance:
        advance()
    assert terminal.getvalue() == ""
    with redirect_stderr(terminal), progress_bar("pods", 3, fewest=2) as advance:
        advance()
    assert "1/3" in terminal.getvalue()


def test_work_of_unknown_size_tells_what_has_come(terminal: Terminal) -> None:
    with redirect_stderr(terminal), working("saving", counted=True) as tell:
        tell(5_000_000)
    assert "saving" in terminal.getvalue() and "5.0 MB" in terminal.getvalue()
