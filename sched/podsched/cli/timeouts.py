"""Durations on the command line: 30s, 5m; and pods' grace periods."""

from __future__ import annotations

from typing import Annotated

import typer

from podsched.cli.errors import USAGE, fail
from podsched.config.durations import parse_duration

Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="Such as 30s or 5m.")]
GracePeriod = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        help="Time that pods get to terminate; 0: at once, -1: as in the pod's spec.",
    ),
]


def seconds_or_fail(option: str, text: str) -> float:
    """Return a duration in seconds; exit if it is malformed or negative."""
    try:
        seconds = parse_duration(text)
    except ValueError as exc:
        fail(f"{option}: {exc}", USAGE)
    if seconds < 0:
        fail(f"{option}: {text} is negative", USAGE)
    return seconds
