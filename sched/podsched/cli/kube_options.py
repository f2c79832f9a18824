"""Options of ``sched scheduler`` that are Kubernetes', with its names, units and defaults.

Those of the controllers are kube-controller-manager's, all others kube-scheduler's.

A command line wins over the configuration file, as in kube-scheduler. Go's way to write flags is
understood as well: ``--leader-elect=false``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.flags import takes_flags
from podsched.cli.option_groups import GroupedCommand
from podsched.cli.timeouts import seconds_or_fail
from podsched.config.errors import ConfigError
from podsched.config.feature_gates import check_version, parse_gates
from podsched.config.flags import flag
from podsched.config.kube_flags import refusals
from podsched.config.settings import ControllerSettings, LogLevel
from podsched.telemetry.logs import DEBUG_FROM, parse_modules

_ELECTION, _GATES, _DEPRECATED = "Leader election", "Feature gates", "Deprecated"
_OBSERVABILITY = "Observability"


@dataclass(frozen=True, slots=True)
class _Given:
    write_config_to: Path | None = flag(None, "FILE")
    """Write the configuration in effect to a file, and exit."""
    leader_elect: bool | None = flag(
        None, "", _ELECTION, names="--leader-elect/--no-leader-elect", show_default=False
    )
    """leaderElection.leaderElect of the configuration."""
    leader_elect_lease_duration: str = flag("", "DURATION", _ELECTION)
    """Time after which others take over from a leader that does not renew its lease, if they cannot
    tell earlier that it is gone. Default: 15s."""
    leader_elect_renew_deadline: str = flag("", "DURATION", _ELECTION)
    """Time after which a leader that cannot renew its lease gives up. Default: 10s."""
    leader_elect_retry_period: str = flag("", "DURATION", _ELECTION)
    """Interval between attempts to acquire or renew the lease. Default: 2s."""
    leader_elect_resource_lock: str = flag("", "TYPE", _ELECTION)
    """Type of the lock; leases is the only one."""
    leader_elect_resource_name: str = flag("", "NAME", _ELECTION)
    """Name of the lease. Default: kube-scheduler."""
    leader_elect_resource_namespace: str = flag("", "NAME", _ELECTION)
    """Namespace of the lease. Default: kube-system."""
    feature_gates: list[str] | None = flag(None, "NAME=BOOL,...", _GATES)
    """Feature gates of kube-scheduler; one that podsched cannot honour is an error."""
    emulated_version: str = flag("", "VERSION", _GATES)
    """The version to behave as: 1.36 alone."""
    min_compatibility_version: str = flag("", "VERSION", _GATES)
    """The oldest version to be compatible with: 1.36 alone."""
    disabled_metrics: list[str] | None = flag(None, "NAME,...", _OBSERVABILITY)
    """Metrics to leave out of /metrics."""
    v: int | None = flag(None, "LEVEL", _OBSERVABILITY, names="--v -v", min=0)
    """Verbosity as a number; from 4 on, --log-level debug."""
    vmodule: str = flag("", "COMPONENT=LEVEL,...", _OBSERVABILITY)
    """Verbosity of components, which may have * in their names, such as queue=4."""
    pod_max_in_unschedulable_pods_duration: str = flag("5m", "DURATION", "Queue")
    """Time after which an unschedulable pod is retried without an event."""
    profiling: bool | None = flag(
        None, "", _DEPRECATED, names="--profiling/--no-profiling", show_default=False
    )
    """Use enableProfiling of the configuration."""
    contention_profiling: bool | None = flag(
        None,
        "",
        _DEPRECATED,
        names="--contention-profiling/--no-contention-profiling",
        show_default=False,
    )
    """Use enableContentionProfiling of the configuration."""


@dataclass(frozen=True, slots=True)
class KubeFlags:
    """What kube-scheduler's flags ask for, checked."""

    overrides: Mapping[str, Any]
    """Fields of the configuration, as in its file."""
    write_config_to: Path | None
    disabled_metrics: frozenset[str]
    verbosity: int | None
    log_modules: tuple[tuple[str, str], ...]
    pod_max_in_unschedulable_pods_duration: float
    controllers: ControllerSettings
    gates: Mapping[str, bool]

    @property
    def coordinated(self) -> bool:
        """Whether the API server appoints the leader."""
        return self.gates.get("CoordinatedLeaderElection", False)

    def level(self, level: LogLevel) -> LogLevel:
        """Return the log level in effect; ``level`` is that of ``--log-level``."""
        return "debug" if (self.verbosity or 0) >= DEBUG_FROM else level


@takes_flags
def kube_flags(given: _Given, controllers: ControllerSettings) -> KubeFlags:
    """Return what the flags ask for; exit if it cannot be honoured."""
    gates = _checked_gates(
        given.feature_gates or [], given.emulated_version, given.min_compatibility_version
    )
    election = {
        "leaderElect": given.leader_elect,
        "leaseDuration": given.leader_elect_lease_duration,
        "renewDeadline": given.leader_elect_renew_deadline,
        "retryPeriod": given.leader_elect_retry_period,
        "resourceLock": given.leader_elect_resource_lock,
        "resourceName": given.leader_elect_resource_name,
        "resourceNamespace": given.leader_elect_resource_namespace,
    }
    deprecated = {
        "enableProfiling": given.profiling,
        "enableContentionProfiling": given.contention_profiling,
    }
    fields = {**deprecated, "leaderElection": _given(election)}
    for field in _given(deprecated):
        warn(f"the flag is deprecated: set {field} in the configuration file")
    return KubeFlags(
        overrides=_given(fields),
        write_config_to=given.write_config_to,
        disabled_metrics=frozenset(filter(None, ",".join(given.disabled_metrics or []).split(","))),
        verbosity=given.v,
        log_modules=_modules(given.vmodule),
        pod_max_in_unschedulable_pods_duration=_seconds(
            "--pod-max-in-unschedulable-pods-duration",
            given.pod_max_in_unschedulable_pods_duration,
        ),
        controllers=controllers,
        gates=gates,
    )


class KubeCommand(GroupedCommand):
    """A command that takes kube-scheduler's flags as they are written for it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if found := refusals(args):
            fail("\nerror: ".join(found), USAGE)
        return list(super().parse_args(ctx, self._plain(args)))

    def _plain(self, arguments: Sequence[str]) -> list[str]:
        """Return arguments with --flag=true and --flag=false as --flag and --no-flag."""
        flags = {
            option: (option, off)
            for param in self.params
            if getattr(param, "is_flag", False)
            for option in param.opts
            for off in [*param.secondary_opts, ""][:1]
        }
        found: list[str] = []
        for argument in arguments:
            name, equals, value = argument.partition("=")
            if not equals or name not in flags or value.lower() not in ("true", "false"):
                found.append(argument)
                continue
            on, off = flags[name]
            found += [on] if value.lower() == "true" else [off] if off else []
        return found


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, "", {})}


def _checked_gates(gates: Sequence[str], emulated: str, compatible: str) -> Mapping[str, bool]:
    """Return the feature gates; exit unless podsched behaves as they and versions say."""
    try:
        found = parse_gates(",".join(gates))
        for flag, version in (
            ("--emulated-version", emulated),
            ("--min-compatibility-version", compatible),
        ):
            if version:
                check_version(flag, version)
    except ConfigError as exc:
        fail("\nerror: ".join(str(exc).splitlines()), USAGE)
    return found


def _modules(text: str) -> tuple[tuple[str, str], ...]:
    try:
        return parse_modules(text)
    except ValueError as exc:
        fail(f"--vmodule: {exc}", USAGE)


def _seconds(option: str, text: str) -> float:
    """Return a duration, or a number of seconds; exit if it is neither."""
    return float(text) if text.replace(".", "", 1).isdigit() else seconds_or_fail(option, text)


__all__ = ["KubeCommand", "KubeFlags", "kube_flags"]
