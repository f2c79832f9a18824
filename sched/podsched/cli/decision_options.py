"""Options of ``sched scheduler`` for what it records of its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from podsched.api import quantity
from podsched.cli.config import read_config
from podsched.cli.errors import USAGE, fail, warn
from podsched.config.load import SchedulerConfiguration

_PANEL = "Decisions"


@dataclass(frozen=True, slots=True)
class DecisionFlags:
    """Where decisions are kept; see ``SchedulerSettings``."""

    place: str
    size: int
    shadow: SchedulerConfiguration | None
    """A configuration to decide with beside the one in effect."""


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
    shadow_config: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_PANEL,
            metavar="FILE",
            help="KubeSchedulerConfiguration with which to decide on every pod a second time; "
            "changes nothing, and tells by metric and log where it differs. For standbys.",
        ),
    ] = None,
) -> DecisionFlags:
    """Return what the options ask for; exit unless the size and the configuration are valid."""
    try:
        size = quantity.value(decision_log_size) if decision_log_size else 0
    except ValueError:
        fail(f"--decision-log-size: {decision_log_size!r} is not a size such as 256Mi", USAGE)
    shadow = read_config(shadow_config) if shadow_config is not None else None
    if shadow is not None and shadow.extenders:
        warn(f"{shadow_config}: extenders: a shadow does not ask them")
    return DecisionFlags(decision_log, size, shadow)


__all__ = ["DecisionFlags", "decision_flags"]
