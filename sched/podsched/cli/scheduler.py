"""``sched scheduler``: run a scheduler replica."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from podsched.api import quantity
from podsched.app.process import ProcessOptions
from podsched.cli.client import Server, client_options, endpoints
from podsched.cli.config import config_reader, read_config, read_source
from podsched.cli.errors import USAGE, fail, fail_on, warn
from podsched.cli.flags import takes_flags
from podsched.cli.kube_options import KubeCommand, KubeFlags, ServingFlags
from podsched.cli.kubernetes import KubernetesFlags
from podsched.cli.options import seconds_or_fail, split_address
from podsched.cli.policy import ConfigSource
from podsched.cli.process_options import (
    LOOPBACK,
    PageFlags,
    check_client_listener,
    etcd_options,
    run_or_fail,
    serving_files,
    telemetry_settings,
)
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.load import SchedulerConfiguration, to_yaml
from podsched.config.settings import (
    ControllerSettings,
    EvaluatorSettings,
    SchedulerSettings,
    TelemetrySettings,
)
from podsched.lib.network import is_ip_address
from podsched.lib.server_health import SILENCE
from podsched.serve.client.channels import ClientOptions
from podsched.serve.store.connection import EtcdOptions

if TYPE_CHECKING:
    from podsched.app.replica import ReplicaOptions
    from podsched.config.leader_election import LeaderElectionSettings
    from podsched.lib.tls_contexts import TlsFiles
    from podsched.serve.kube.access import ClusterAccess
    from podsched.term.election.options import ElectionOptions

#: Seconds; in less time, a healthy leader cannot renew its lock several times.
SHORTEST_ELECTION_TIMEOUT = 0.1
app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, slots=True)
class _Flags(PageFlags):
    trace_ratio: float = flag(0.01, "RATIO", "Observability", min=0, max=1)
    """Fraction of scheduling attempts to trace."""
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration file."""
    listen_peers: str = flag(LOOPBACK, "HOST:PORT")
    """Listen address for other replicas. They connect to the leader, so that they notice at once
    when it dies."""
    advertise_peers: str = flag("", "HOST:PORT")
    """Address at which other replicas reach --listen-peers. Default: the listen address."""
    election_timeout: str = flag("400ms", "DURATION")
    """Time after which standbys take over from a leader that does not renew the lock; it renews the
    lock four times as often. At least 100ms; 0s: they take over only when the lease has expired or
    the leader's process is gone."""
    decision_log_size: str = flag("", "SIZE", "Decisions")
    """Max size of the decision log, such as 1Gi; the oldest decisions are dropped. Default: 256Mi
    in a directory, 16Mi in memory."""
    shadow_config: Path | None = flag(None, "FILE", "Decisions")
    """KubeSchedulerConfiguration to compare with, for standbys: every decision is repeated with it,
    and differences are logged and counted. It has no effect on the cluster."""


@app.command(cls=KubeCommand)
@takes_flags
def scheduler(
    ctx: typer.Context,
    given: _Flags,
    settings: SchedulerSettings,
    flags: KubeFlags,
    controllers: ControllerSettings,
    source: ConfigSource,
    serving: ServingFlags,
    kubernetes: KubernetesFlags,
    evaluation: EvaluatorSettings,
    client: ClientOptions,
    etcd: EtcdOptions,
    telemetry: TelemetrySettings,
    server: Server = "",
) -> None:
    """Run a scheduler replica; it schedules pods while it holds the lease."""
    from podsched.app.podsched_backend import PodschedBackend, PodschedOptions
    from podsched.app.replica import ReplicaOptions, run_replica, unique_identity

    client = replace(client_options(client), silence=SILENCE)
    etcd, gates = etcd_options(etcd), flags.gates()
    coordinated = gates.get("CoordinatedLeaderElection", False)
    access = kubernetes.access()
    _check_cluster(ctx, source, kubernetes, coordinated, named=access is not None)
    honoured = ("clientConnection.qps", "clientConnection.burst") if access else ()
    source = replace(source, config=given.config, server=server, client=client)
    source = replace(source, overrides=flags.overrides, honoured=honoured)
    configuration, _ = read_source(source)
    if flags.write_config_to is not None:
        flags.write_config_to.write_text(to_yaml(configuration))
        return
    health, tls = given.health_listen, serving_files(client)
    health_tls = tls
    if serving.https:
        health, health_tls = serving.address, serving.tls(client.tls_ca)
    else:
        check_client_listener("--health-listen", health, tls, insecure=given.insecure_listen)
    election = _election(given, tls, configuration.leader_election)
    settings = _settings(settings, given, flags, evaluation, server)
    lock = configuration.leader_election
    own = PodschedOptions(settings.api_endpoints, client, etcd, lock, election.liveness_ttl)
    options = ReplicaOptions(
        configuration,
        settings,
        election,
        partial(PodschedBackend, own),
        replace(controllers, job_gangs=gates.get("WorkloadWithJob", False)),
        client,
        config_reader(source),
        _shadow(given.shadow_config),
    )
    if access is not None:
        options = _on_kubernetes(options, access, kubernetes, coordinated)
    telemetry = telemetry_settings(telemetry, health, given.trace_ratio)
    telemetry = _telemetry(telemetry, flags, gates, serving)
    identity = unique_identity(settings.identity)
    page = _page(given, health_tls)
    process = ProcessOptions("scheduler", identity, telemetry, health_tls, serving.https, {}, page)
    listening = _listening(given, serving, health, options.election)
    run_or_fail(ctx, process, lambda p: run_replica(p, options), listening)


def _page(given: _Flags, tls: TlsFiles | None) -> tuple[str, int] | None:
    """Return where to serve the page; exit if others reach it without TLS."""
    if not given.web_listen:
        return None
    insecure = given.insecure_listen
    return check_client_listener("--web-listen", given.web_listen, tls, insecure=insecure)


def _listening(
    given: _Flags, serving: ServingFlags, health: str, election: ElectionOptions
) -> dict[str, str | None]:
    """Return the addresses to listen on, by their options."""
    return {
        "--secure-port" if serving.https else "--health-listen": health,
        "--listen-peers": given.listen_peers if election.listen_host else None,
        "--web-listen": given.web_listen,
    }


def _settings(
    settings: SchedulerSettings,
    given: _Flags,
    flags: KubeFlags,
    evaluation: EvaluatorSettings,
    server: str,
) -> SchedulerSettings:
    """Return the settings, combined with other options; exit if they are invalid."""
    with fail_on(ConfigError, code=USAGE):
        return replace(
            settings,
            api_endpoints=tuple(endpoints(server)),
            evaluation=evaluation,
            pod_max_in_unschedulable_pods_duration=flags.max_in_unschedulable(),
            decision_log_size=_size(given.decision_log_size),
        )


def _telemetry(
    telemetry: TelemetrySettings, flags: KubeFlags, gates: Mapping[str, bool], serving: ServingFlags
) -> TelemetrySettings:
    """Return the settings, combined with kube-scheduler's flags."""
    return replace(
        telemetry,
        log_level=flags.log_level(telemetry.log_level),
        log_modules=flags.log_modules(),
        feature_gates=gates,
        disabled_metrics=frozenset(",".join(flags.disabled_metrics or ()).split(",")) - {""},
        open_paths=serving.open_paths,
    )


def _check_cluster(
    ctx: typer.Context,
    source: ConfigSource,
    kubernetes: KubernetesFlags,
    coordinated: bool,
    *,
    named: bool,
) -> None:
    """Exit if the options name two clusters, or if the cluster does not support them."""
    if coordinated and (not named or kubernetes.early):
        needs = "needs --kubeconfig or --in-cluster, and --takeover lease"
        fail(f"--feature-gates CoordinatedLeaderElection=true {needs}", USAGE)
    if not named:
        return
    # SCHED_SERVER may be set for other commands.
    origin = ctx.get_parameter_source("server")
    if origin is not None and origin.name == "COMMANDLINE":
        fail("--server and --kubeconfig name two clusters: use one of them", USAGE)
    if source.policy_configmap:
        fail("--policy-configmap is read from podsched's API server: use a file", USAGE)


def _size(text: str) -> int:
    """Return the size of the decision log in bytes, 0 for the default; exit if it is invalid."""
    try:
        return quantity.value(text) if text else 0
    except ValueError:
        fail(f"--decision-log-size: {text!r} is not a size such as 256Mi", USAGE)


def _shadow(path: Path | None) -> SchedulerConfiguration | None:
    """Return the shadow configuration; exit if it is invalid."""
    if path is None:
        return None
    shadow = read_config(path)
    if shadow.extenders:
        warn(f"{path}: extenders: a shadow configuration does not call them")
    return shadow


def _election(
    given: _Flags, tls: TlsFiles | None, settings: LeaderElectionSettings
) -> ElectionOptions:
    """Return the options; exit if they are invalid, or others can reach the address without TLS."""
    from podsched.term.election.options import ElectionOptions

    host, port = check_client_listener(
        "--listen-peers", given.listen_peers, tls, insecure=given.insecure_listen
    )
    advertised = given.advertise_peers
    if ":" in advertised and not is_ip_address(advertised.strip("[]")):
        split_address("--advertise-peers", advertised)
    return ElectionOptions(
        listen_host=host,
        listen_port=port,
        advertise_address=advertised,
        tls=tls,
        election_timeout=_election_timeout(given.election_timeout, settings.lease_duration),
    )


def _election_timeout(text: str, lease_duration: float) -> float:
    """Return the seconds, 0 for none; exit unless it is shorter than the lease."""
    seconds = seconds_or_fail("--election-timeout", text)
    if seconds and not SHORTEST_ELECTION_TIMEOUT <= seconds < lease_duration:
        allowed = f"0s, or at least 100ms and less than leaseDuration ({lease_duration:g}s)"
        fail(f"--election-timeout: {text} is not {allowed}", USAGE)
    return seconds


def _on_kubernetes(
    options: ReplicaOptions, access: ClusterAccess, flags: KubernetesFlags, coordinated: bool
) -> ReplicaOptions:
    """Return the options of a replica for a Kubernetes cluster.

    Its Leases have no liveness key, and Ray actors cannot bind there.
    """
    from podsched.app.kube_backend import KubeBackend, KubeOptions

    config, election, evaluation = options.config, options.election, options.settings.evaluation
    connection, lock = config.effective.client_connection, config.leader_election
    early = flags.early
    cluster = KubeOptions(access, connection, lock, early, coordinated, flags.queues)
    return replace(
        options,
        settings=replace(options.settings, evaluation=replace(evaluation, binder="direct")),
        election=replace(
            election,
            listen_host=election.listen_host if early else None,
            liveness_ttl=0,
            election_timeout=0.0,
            coordinated=coordinated,
        ),
        backend=partial(KubeBackend, cluster),
    )
