"""The ``sched`` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from podsched import __version__
from podsched.cli import bench, local, objects, servers, status

app = typer.Typer(
    name="sched",
    help="podsched: a highly available pod scheduler with the semantics of kube-scheduler.",
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
    ("get", objects.get, _OBJECTS),
    ("describe", objects.describe_command, _OBJECTS),
    ("delete", objects.delete, _OBJECTS),
    ("label", objects.label, _OBJECTS),
    ("taint", objects.taint, _OBJECTS),
    ("cordon", objects.cordon, _OBJECTS),
    ("uncordon", objects.uncordon, _OBJECTS),
    ("demo", local.demo, _LOCAL),
    ("up", local.up, _LOCAL),
    ("bench", bench.bench, _LOCAL),
    ("status", status.status, _OBJECTS),
    ("apiserver", servers.apiserver, _PROCESSES),
    ("scheduler", servers.scheduler, _PROCESSES),
    ("agent", servers.agent, _PROCESSES),
):
    app.command(_name, rich_help_panel=_panel)(_command)


def main() -> None:
    """Entry point of the console command."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
