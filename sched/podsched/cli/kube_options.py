"""Options of ``sched scheduler`` that are Kubernetes', with its names, units and defaults.

Those of the controllers are kube-controller-manager's, all others kube-scheduler's.

A command line wins over the configuration file, as in kube-scheduler. Go's way to write flags is
understood as well: ``--leader-elect=false``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from podsched.cli.errors import USAGE, fail, invalid_settings_fail, warn
from podsched.cli.option_groups import GroupedCommand
from podsched.cli.timeouts import seconds_or_fail
from podsched.config.errors import ConfigError
from podsched.config.feature_gates import check_version, parse_gates
from podsched.config.kube_flags import refusals
from podsched.config.settings import ControllerSettings
from podsched.telemetry.logs import DEBUG_FROM, parse_modules

_ELECTION, _GATES, _DEPRECATED = "Leader election", "Feature gates", "Deprecated"
_OBSERVABILITY, _CONTROLLERS, _QUEUE = "Observability", "Controllers", "Queue"

WriteConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the configuration in effect to a file, and exit."),
]
LeaderElect = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect",
        rich_help_panel=_ELECTION,
        help="leaderElection.leaderElect of the configuration.",
        show_default=False,
    ),
]
LeaseDuration = Annotated[
    str,
    typer.Option(
        "--leader-elect-lease-duration",
        rich_help_panel=_ELECTION,
        metavar="DURATION",
        help="Time after which others take over from a leader that does not renew its lease, "
        "if they cannot tell earlier that it is gone. Default: 15s.",
    ),
]
RenewDeadline = Annotated[
    str,
    typer.Option(
        "--leader-elect-renew-deadline",
        rich_help_panel=_ELECTION,
        metavar="DURATION",
        help="Time after which a leader that cannot renew its lease gives up. Default: 10s.",
    ),
]
RetryPeriod = Annotated[
    str,
    typer.Option(
        "--leader-elect-retry-period",
        rich_help_panel=_ELECTION,
        metavar="DURATION",
        help="Interval between attempts to acquire or renew the lease. Default: 2s.",
    ),
]
ResourceLock = Annotated[
    str,
    typer.Option(
        "--leader-elect-resource-lock",
        rich_help_panel=_ELECTION,
        metavar="TYPE",
        help="Type of the lock; leases is the only one.",
    ),
]
ResourceName = Annotated[
    str,
    typer.Option(
        "--leader-elect-resource-name",
        rich_help_panel=_ELECTION,
        metavar="NAME",
        help="Name of the lease. Default: kube-scheduler.",
    ),
]
ResourceNamespace = Annotated[
    str,
    typer.Option(
        "--leader-elect-resource-namespace",
        rich_help_panel=_ELECTION,
        metavar="NAME",
        help="Namespace of the lease. Default: kube-system.",
    ),
]
FeatureGates = Annotated[
    list[str] | None,
    typer.Option(
        "--feature-gates",
        rich_help_panel=_GATES,
        metavar="NAME=BOOL,...",
        help="Feature gates of kube-scheduler; one that podsched cannot honour is an error.",
    ),
]
EmulatedVersion = Annotated[
    str,
    typer.Option(
        rich_help_panel=_GATES, metavar="VERSION", help="The version to behave as: 1.36 alone."
    ),
]
MinCompatibilityVersion = Annotated[
    str,
    typer.Option(
        rich_help_panel=_GATES,
        metavar="VERSION",
        help="The oldest version to be compatible with: 1.36 alone.",
    ),
]
DisabledMetrics = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=_OBSERVABILITY, metavar="NAME,...", help="Metrics to leave out of /metrics."
    ),
]
Verbosity = Annotated[
    int | None,
    typer.Option(
        "--v",
        "-v",
        rich_help_panel=_OBSERVABILITY,
        metavar="LEVEL",
        min=0,
        help="Verbosity as a number; from 4 on, --log-level debug.",
    ),
]
VModule = Annotated[
    str,
    typer.Option(
        "--vmodule",
        rich_help_panel=_OBSERVABILITY,
        metavar="COMPONENT=LEVEL,...",
        help="Verbosity of components, which may have * in their names, such as queue=4.",
    ),
]
Profiling = Annotated[
    bool | None,
    typer.Option(
        "--profiling/--no-profiling",
        rich_help_panel=_DEPRECATED,
        help="Use enableProfiling of the configuration.",
        show_default=False,
    ),
]
ContentionProfiling = Annotated[
    bool | None,
    typer.Option(
        "--contention-profiling/--no-contention-profiling",
        rich_help_panel=_DEPRECATED,
        help="Use enableContentionProfiling of the configuration.",
        show_default=False,
    ),
]

MonitorPeriod = Annotated[
    float,
    typer.Option(
        rich_help_panel=_CONTROLLERS,
        metavar="SECONDS",
        help="Interval at which the nodes' heartbeats are checked.",
    ),
]
MonitorGracePeriod = Annotated[
    float,
    typer.Option(
        rich_help_panel=_CONTROLLERS,
        metavar="SECONDS",
        help="Time without a heartbeat after which a node is marked unreachable.",
    ),
]
EvictionRate = Annotated[
    float,
    typer.Option(
        rich_help_panel=_CONTROLLERS,
        metavar="RATE",
        help="Unreachable nodes per second that get a NoExecute taint, in a healthy zone.",
    ),
]
GcThreshold = Annotated[
    int,
    typer.Option(
        rich_help_panel=_CONTROLLERS,
        metavar="N",
        help="Finished pods to keep before the oldest are deleted; 0 keeps all.",
    ),
]

_MAX_UNSCHEDULABLE = "--pod-max-in-unschedulable-pods-duration"
MaxUnschedulable = Annotated[
    str,
    typer.Option(
        _MAX_UNSCHEDULABLE,
        rich_help_panel=_QUEUE,
        metavar="DURATION",
        help="Time after which an unschedulable pod is retried without an event.",
    ),
]


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

    def level(self, level: str) -> str:
        """Return the log level in effect; ``level`` is that of ``--log-level``."""
        return "debug" if (self.verbosity or 0) >= DEBUG_FROM else level


def kube_flags(
    write_config_to: WriteConfig = None,
    leader_elect: LeaderElect = None,
    lease_duration: LeaseDuration = "",
    renew_deadline: RenewDeadline = "",
    retry_period: RetryPeriod = "",
    resource_lock: ResourceLock = "",
    resource_name: ResourceName = "",
    resource_namespace: ResourceNamespace = "",
    feature_gates: FeatureGates = None,
    emulated_version: EmulatedVersion = "",
    min_compatibility_version: MinCompatibilityVersion = "",
    disabled_metrics: DisabledMetrics = None,
    v: Verbosity = None,
    vmodule: VModule = "",
    pod_max_in_unschedulable_pods_duration: MaxUnschedulable = "5m",
    node_monitor_period: MonitorPeriod = 5.0,
    node_monitor_grace_period: MonitorGracePeriod = 40.0,
    node_eviction_rate: EvictionRate = 0.1,
    terminated_pod_gc_threshold: GcThreshold = 12_500,
    profiling: Profiling = None,
    contention_profiling: ContentionProfiling = None,
) -> KubeFlags:
    """Return what the flags ask for; exit if it cannot be honoured."""
    gates = _checked_gates(feature_gates or [], emulated_version, min_compatibility_version)
    election = {
        "leaderElect": leader_elect,
        "leaseDuration": lease_duration,
        "renewDeadline": renew_deadline,
        "retryPeriod": retry_period,
        "resourceLock": resource_lock,
        "resourceName": resource_name,
        "resourceNamespace": resource_namespace,
    }
    deprecated = {"enableProfiling": profiling, "enableContentionProfiling": contention_profiling}
    fields = {**deprecated, "leaderElection": _given(election)}
    with invalid_settings_fail():
        controllers = ControllerSettings(
            node_monitor_period=node_monitor_period,
            node_monitor_grace_period=node_monitor_grace_period,
            node_eviction_rate=node_eviction_rate,
            terminated_pod_gc_threshold=terminated_pod_gc_threshold,
        )
    for field in _given(deprecated):
        warn(f"the flag is deprecated: set {field} in the configuration file")
    return KubeFlags(
        overrides=_given(fields),
        write_config_to=write_config_to,
        disabled_metrics=frozenset(filter(None, ",".join(disabled_metrics or []).split(","))),
        verbosity=v,
        log_modules=_modules(vmodule),
        pod_max_in_unschedulable_pods_duration=_seconds(
            _MAX_UNSCHEDULABLE, pod_max_in_unschedulable_pods_duration
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
