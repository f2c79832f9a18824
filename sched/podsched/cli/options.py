"""Options that several commands share."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

import typer

from podsched.cli.errors import USAGE, fail, fail_on
from podsched.config.durations import parse_duration

_FILENAME = typer.Option(
    "--filename",
    "-f",
    metavar="FILE|DIR|-",
    help="Manifest file, directory of manifests, or - for standard input; repeatable.",
)
Filename = Annotated[list[str], _FILENAME]
OptionalFilename = Annotated[list[str] | None, _FILENAME]
Recursive = Annotated[bool, typer.Option("--recursive", "-R", help="Also read subdirectories.")]
LabelSelector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="Select objects by labels, such as app=web,tier!=front.",
    ),
]


Days = Annotated[int, typer.Option(min=1, max=3650, metavar="N", help="Days until expiry.")]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Max time to wait, such as 30s or 5m.")
]
GracePeriod = Annotated[
    int,
    typer.Option(
        min=-1,
        max=2**31 - 1,
        metavar="SECONDS",
        help="Time that pods have to terminate; 0: none, -1: as in the pod's spec.",
    ),
]


def seconds_or_fail(option: str, text: str) -> float:
    """Return a duration in seconds; exit if it is malformed or negative."""
    with fail_on(ValueError, about=option, code=USAGE):
        seconds = parse_duration(text)
    if seconds < 0:
        fail(f"{option}: {text} is negative", USAGE)
    return seconds


def split_address(option: str, address: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; exit if it is malformed."""
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        fail(f'{option}: "{address}" is not HOST:PORT', USAGE)
    return host.strip("[]"), int(port)


class DryRun(StrEnum):
    """Values of ``--dry-run``."""

    NONE = "none"
    SERVER = "server"

    @property
    def asked(self) -> bool:
        """Whether it is a dry run."""
        return self is DryRun.SERVER

    @property
    def suffix(self) -> str:
        """The suffix of lines about actions, as kubectl prints it."""
        return " (server dry run)" if self.asked else ""


DryRunOption = Annotated[
    DryRun,
    typer.Option(
        "--dry-run", help="server: let the API server check the request without changing anything."
    ),
]


#: Output formats of commands that answer questions.
Form = Literal["table", "json"]
