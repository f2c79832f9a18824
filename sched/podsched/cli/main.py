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
    certs,
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
from podsched.cli.errors import FAILED
from podsched.cli.output import discard_output, open_streams, os_error_text, say

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
app.add_typer(certs.app, name="certs", rich_help_panel=_PROCESSES)


def main() -> None:
    """Run the console command; show a traceback only if ``SCHED_DEBUG`` is set."""
    open_streams()
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # The reader has closed the pipe, as in ``sched get pods | head``.
        discard_output()
        sys.exit(0)
    except Exception as exc:
        sys.exit(_exit_code(exc))


def _exit_code(error: Exception) -> int:
    """Print an error that no command has handled and return the exit code."""
    if (code := _usage_error(error)) is not None:
        return code
    if os.environ.get("SCHED_DEBUG"):
        raise error
    if isinstance(error, OSError):
        # A file that cannot be read, or output that cannot be written.
        discard_output()
        subject = f"{error.filename}: " if error.filename else ""
        say(f"error: {subject}{os_error_text(error)}", error=True)
        return FAILED
    what = " ".join(str(error).split())
    say(
        f"error: bug in sched: {type(error).__name__}: {what} (traceback: SCHED_DEBUG=1)",
        error=True,
    )
    return 70


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
        say(text, error=True)
    elif text:
        say(f"error: {text.rstrip('.')} (see {command} --help)", error=True)
    return code
