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
from podsched.cli.help_texts import Command
from podsched.cli.timeouts import seconds_or_fail
from podsched.config.errors import ConfigError
from podsched.config.feature_gates import check_version, parse_gates
from podsched.config.flags import flag
from podsched.config.kube_flags import refusals
from podsched.config.settings import LogLevel
from podsched.telemetry.logs import DEBUG_FROM, parse_modules

_ELECTION, _GATES, _DEPRECATED = "Leader election", "Feature gates", "Deprecated"
_OBSERVABILITY = "Observability"


@dataclass(frozen=True, slots=True)
class KubeFlags:
    """kube-scheduler's flags. Exits if one cannot be honoured."""

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

    def __post_init__(self) -> None:
        for field in self._deprecated:
            warn(f"the flag is deprecated: set {field} in the configuration file")

    @property
    def _deprecated(self) -> dict[str, Any]:
        profiling, contention = self.profiling, self.contention_profiling
        return _given({"enableProfiling": profiling, "enableContentionProfiling": contention})

    @property
    def overrides(self) -> dict[str, Any]:
        """Fields of the configuration that are given here, as in its file."""
        election = {
            "leaderElect": self.leader_elect,
            "leaseDuration": self.leader_elect_lease_duration,
            "renewDeadline": self.leader_elect_renew_deadline,
            "retryPeriod": self.leader_elect_retry_period,
            "resourceLock": self.leader_elect_resource_lock,
            "resourceName": self.leader_elect_resource_name,
            "resourceNamespace": self.leader_elect_resource_namespace,
        }
        return _given({**self._deprecated, "leaderElection": _given(election)})

    def gates(self) -> Mapping[str, bool]:
        """Return the feature gates; exit unless podsched behaves as they and the versions say."""
        versions = {
            "--emulated-version": self.emulated_version,
            "--min-compatibility-version": self.min_compatibility_version,
        }
        try:
            found = parse_gates(",".join(self.feature_gates or []))
            for option, version in _given(versions).items():
                check_version(option, version)
        except ConfigError as exc:
            fail("\nerror: ".join(str(exc).splitlines()), USAGE)
        return found

    def log_modules(self) -> tuple[tuple[str, str], ...]:
        """Return the levels of components; exit if they are malformed."""
        try:
            return parse_modules(self.vmodule)
        except ValueError as exc:
            fail(f"--vmodule: {exc}", USAGE)

    def log_level(self, level: LogLevel) -> LogLevel:
        """Return the log level in effect; ``level`` is that of ``--log-level``."""
        return "debug" if (self.v or 0) >= DEBUG_FROM else level

    def max_in_unschedulable(self) -> float:
        """Return how long pods may be unschedulable, in seconds; exit if it is no duration."""
        text = self.pod_max_in_unschedulable_pods_duration
        if text.replace(".", "", 1).isdigit():
            return float(text)
        return seconds_or_fail("--pod-max-in-unschedulable-pods-duration", text)


class KubeCommand(Command):
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
