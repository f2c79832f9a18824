"""The help texts at 80 columns."""

from __future__ import annotations

import pytest
import typer

from podsched.cli.main import app
from support.commands import Commands

COMMANDS: dict[str, object] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_options_are_not_cut_at_80_columns(
    sched: Commands, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = sched.ok(command, "--help")
    shown = set(said.replace(",", " ").split())
    options = {
        option
        for parameter in getattr(COMMANDS[command], "params", ())
        if parameter.param_type_name == "option"
        for option in parameter.opts
    }
    assert options <= shown
    assert max(len(line) for line in said.splitlines()) <= 80


def test_options_and_commands_are_grouped(sched: Commands) -> None:
    titles = [line for line in sched.ok("--help").splitlines() if line.endswith(":")]
    assert titles == ["Options:", "On this machine:", "Objects:", "Scheduling:", "Processes:"]
    assert "\nObservability:\n" in sched.ok("scheduler", "--help")


def test_a_group_without_a_command_shows_its_help(sched: Commands) -> None:
    done = sched("config")
    assert done.code == 2
    assert done.errors[0].startswith("Usage: ")
