"""The ``sched`` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from podsched import __version__
from podsched.cli import (
    bench,
    config,
    edit,
    get,
    local,
    objects,
    servers,
    simulate,
    status,
)

app = typer.Typer(
    name="sched",
    help=(
        "podsched: a highly available pod scheduler with the semantics of kube-scheduler.\n\n"
        "sched up runs all of it on this machine; sched apply -f FILE then submits pods."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_LOCAL = "On this machine"
_OBJECTS = "Objects"
_PROCESSES = "Processes"


def _version(value: bool) -> None:
    if value:
        print(f"podsched {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version


for _name, _command, _panel in (
    ("apply", objects.apply, _OBJECTS),
    ("create", objects.create, _OBJECTS),
    ("get", get.get, _OBJECTS),
    ("describe", get.describe_command, _OBJECTS),
    ("delete", objects.delete, _OBJECTS),
    ("label", edit.label, _OBJECTS),
    ("taint", edit.taint, _OBJECTS),
    ("cordon", edit.cordon, _OBJECTS),
    ("uncordon", edit.uncordon, _OBJECTS),
    ("demo", local.demo, _LOCAL),
    ("up", local.up, _LOCAL),
    ("bench", bench.bench, _LOCAL),
    ("status", status.status, _OBJECTS),
    ("simulate", simulate.simulate_command, _OBJECTS),
    ("apiserver", servers.apiserver, _PROCESSES),
    ("scheduler", servers.scheduler, _PROCESSES),
    ("agent", servers.agent, _PROCESSES),
):
    app.command(_name, rich_help_panel=_panel)(_command)

app.add_typer(config.app, name="config", rich_help_panel=_PROCESSES)


def main() -> None:
    """Entry point of the console command; no traceback reaches a user who has not asked for it."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except Exception as exc:
        if (code := _misused(exc)) is not None:
            sys.exit(code)
        if os.environ.get("SCHED_DEBUG"):
            raise
        what = " ".join(str(exc).split())
        print(
            f"error: a bug in sched: {type(exc).__name__}: {what} (SCHED_DEBUG=1 shows where)",
            file=sys.stderr,
        )
        sys.exit(70)


def _misused(error: Exception) -> int | None:
    """Print what is wrong with the command line and return the exit code; None for other errors.

    Known by their shape: depending on its version Typer raises click's errors or its own.
    """
    wording, code = getattr(error, "format_message", None), getattr(error, "exit_code", None)
    if wording is None or not isinstance(code, int):
        return None
    command = getattr(getattr(error, "ctx", None), "command_path", "sched")
    # Without a text the help has been shown instead.
    if text := wording().replace("Value error, ", "").strip():
        print(f"error: {text.rstrip('.')} (see {command} --help)", file=sys.stderr)
    return code
