"""The ``sched`` command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from podsched import __version__
from podsched.cli import (
    agent,
    apiserver,
    bench,
    config,
    edit,
    get,
    help_texts,
    local,
    objects,
    scheduler,
    simulate,
    status,
)

app = typer.Typer(
    name="sched",
    cls=help_texts.Group,
    rich_markup_mode=None,
    help=(
        "podsched: a highly available pod scheduler with the semantics of kube-scheduler.\n\n"
        "sched up starts a cluster on this machine; sched apply -f FILE submits pods to it."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_LOCAL = "On this machine"
_OBJECTS = "Objects"
_SCHEDULING = "Scheduling"
_PROCESSES = "Processes"


def _version(value: bool) -> None:
    if value:
        print(f"podsched {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    del version


for _name, _command, _panel in (
    ("demo", local.demo, _LOCAL),
    ("up", local.up, _LOCAL),
    ("bench", bench.bench, _LOCAL),
    ("apply", objects.apply, _OBJECTS),
    ("create", objects.create, _OBJECTS),
    ("get", get.get, _OBJECTS),
    ("describe", get.describe_command, _OBJECTS),
    ("delete", objects.delete, _OBJECTS),
    ("label", edit.label, _OBJECTS),
    ("taint", edit.taint, _OBJECTS),
    ("cordon", edit.cordon, _OBJECTS),
    ("uncordon", edit.uncordon, _OBJECTS),
    ("status", status.status, _SCHEDULING),
    ("simulate", simulate.simulate_command, _SCHEDULING),
    ("apiserver", apiserver.apiserver, _PROCESSES),
    ("scheduler", scheduler.scheduler, _PROCESSES),
    ("agent", agent.agent, _PROCESSES),
):
    app.command(_name, cls=help_texts.Command, rich_help_panel=_panel)(_command)

app.add_typer(config.app, name="config", rich_help_panel=_SCHEDULING)


def main() -> None:
    """Run the console command; show a traceback only if ``SCHED_DEBUG`` is set."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except Exception as exc:
        if (code := _usage_error(exc)) is not None:
            sys.exit(code)
        if os.environ.get("SCHED_DEBUG"):
            raise
        what = " ".join(str(exc).split())
        print(
            f"error: bug in sched: {type(exc).__name__}: {what} (traceback: SCHED_DEBUG=1)",
            file=sys.stderr,
        )
        sys.exit(70)


def _usage_error(error: Exception) -> int | None:
    """Print a usage error and return its exit code; return None for other errors.

    Usage errors are recognised by their attributes, because some versions of Typer raise click's
    classes and others raise their own.
    """
    wording, code = getattr(error, "format_message", None), getattr(error, "exit_code", None)
    if wording is None or not isinstance(code, int):
        return None
    command = getattr(getattr(error, "ctx", None), "command_path", "sched")
    text = wording().replace("Value error, ", "").strip()
    if "\n" in text:
        # The help, for a group without a command.
        print(text, file=sys.stderr)
    elif text:
        print(f"error: {text.rstrip('.')} (see {command} --help)", file=sys.stderr)
    return code
