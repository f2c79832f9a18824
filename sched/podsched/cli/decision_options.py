"""Options of ``sched scheduler`` for what it records of its decisions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podsched.api import quantity
from podsched.cli.config import read_config
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.flags import takes_flags
from podsched.config.flags import flag
from podsched.config.load import SchedulerConfiguration

_PANEL = "Decisions"


@dataclass(frozen=True, slots=True)
class DecisionFlags:
    """Where decisions are kept; see ``SchedulerSettings``."""

    place: str
    size: int
    shadow: SchedulerConfiguration | None
    """A configuration to decide with beside the one in effect."""


@dataclass(frozen=True, slots=True)
class _Given:
    decision_log: str = flag("memory", "DIR|memory|off", _PANEL)
    """Where to keep what is decided and why, for sched decisions and sched explain: a directory of
    this replica's own, memory (the last 16Mi), or off."""
    decision_log_size: str = flag("", "SIZE", _PANEL)
    """Bytes kept at most, such as 1Gi; the oldest decisions go first. Default: 256Mi in a
    directory, 16Mi in memory."""
    shadow_config: Path | None = flag(None, "FILE", _PANEL)
    """KubeSchedulerConfiguration with which to decide on every pod a second time; changes nothing,
    and tells by metric and log where it differs. For standbys."""


@takes_flags
def decision_flags(given: _Given) -> DecisionFlags:
    """Return what the options ask for; exit unless the size and the configuration are valid."""
    try:
        size = quantity.value(given.decision_log_size) if given.decision_log_size else 0
    except ValueError:
        fail(f"--decision-log-size: {given.decision_log_size!r} is not a size such as 256Mi", USAGE)
    shadow = read_config(given.shadow_config) if given.shadow_config is not None else None
    if shadow is not None and shadow.extenders:
        warn(f"{given.shadow_config}: extenders: a shadow does not ask them")
    return DecisionFlags(given.decision_log, size, shadow)


__all__ = ["DecisionFlags", "decision_flags"]
