"""Options of ``sched scheduler`` for what it records of its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from podsched.api import quantity
from podsched.cli.errors import USAGE, fail

_PANEL = "Decisions"


@dataclass(frozen=True, slots=True)
class DecisionFlags:
    """Where decisions are kept; see ``SchedulerSettings``."""

    place: str
    size: int


def decision_flags(
    decision_log: Annotated[
        str,
        typer.Option(
            rich_help_panel=_PANEL,
            metavar="DIR|memory|off",
            help="Where to keep what is decided and why, for sched decisions and sched explain: a "
            "directory of this replica's own, memory (the last 16Mi), or off.",
        ),
    ] = "memory",
    decision_log_size: Annotated[
        str,
        typer.Option(
            rich_help_panel=_PANEL,
            metavar="SIZE",
            help="Bytes kept at most, such as 1Gi; the oldest decisions go first. "
            "Default: 256Mi in a directory, 16Mi in memory.",
        ),
    ] = "",
) -> DecisionFlags:
    """Return what the options ask for; exit unless the size is one."""
    try:
        size = quantity.value(decision_log_size) if decision_log_size else 0
    except ValueError:
        fail(f"--decision-log-size: {decision_log_size!r} is not a size such as 256Mi", USAGE)
    return DecisionFlags(decision_log, size)


__all__ = ["DecisionFlags", "decision_flags"]
