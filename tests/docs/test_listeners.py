"""The table of listeners in docs/security.md has the defaults of the commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from podsched.cli import agent, apiserver, scheduler

TEXT = Path(__file__).parents[2].joinpath("docs", "security.md").read_text()
ROWS = [line for line in TEXT.partition("## Listeners")[2].splitlines() if line.startswith("|")]


def listening_options(command: Callable[..., None]) -> dict[str, str]:
    """Return the defaults of the options that name an address to listen on."""
    return {
        f"--{name.replace('_', '-')}": parameter.default
        for name, parameter in inspect.signature(command).parameters.items()
        if "listen" in name and parameter.default and isinstance(parameter.default, str)
    }


@pytest.mark.parametrize("command", [agent.agent, apiserver.apiserver, scheduler.scheduler])
def test_every_listener_is_in_the_table_with_its_default(command: Callable[..., None]) -> None:
    options = listening_options(command)
    assert "--health-listen" in options
    for option, default in options.items():
        [row] = [row for row in ROWS if f"`{option}`" in row and f" {default} " in row]
        assert command.__name__ in row
