"""``sched scheduler``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from podsched.app.process import ProcessOptions
from podsched.cli.bench_options import Without
from podsched.cli.client import Server, client_options, endpoints
from podsched.cli.config import again, read_source
from podsched.cli.decision_options import DecisionFlags, decision_flags
from podsched.cli.errors import USAGE, fail, invalid_settings_fail
from podsched.cli.flags import takes_flags
from podsched.cli.kube_options import KubeCommand, KubeFlags, kube_flags
from podsched.cli.kubernetes import KubernetesOptions, kubernetes_options
from podsched.cli.policy import Source, policy_source
from podsched.cli.process_options import (
    LOOPBACK,
    HealthListen,
    InsecureListen,
    TraceRatio,
    WebListen,
    check_client_listener,
    client_page,
    etcd_options,
    run_or_fail,
    serving_files,
    telemetry_settings,
    with_health,
)
from podsched.cli.serving_options import ServingFlags, serving_flags
from podsched.config.load import to_yaml
from podsched.config.settings import EvaluatorSettings, SchedulerSettings, TelemetrySettings

if TYPE_CHECKING:
    from podsched.app.replica import BackendFactory, ReplicaOptions
    from podsched.config.leader_election import LeaderElectionSettings
    from podsched.lib.tls_contexts import TlsFiles
    from podsched.serve.client.channels import ClientOptions
    from podsched.serve.store.endpoints import EtcdOptions
    from podsched.term.election.options import ElectionOptions

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="KubeSchedulerConfiguration file."),
]
Identity = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Name of this replica, to which a random suffix is added. Default: the host name.",
    ),
]
LeaderPriority = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="A leader hands over to a warm standby of higher priority.",
    ),
]
ListenPeers = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen address for other replicas, which connect to the leader to notice at "
        "once when it dies.",
    ),
]
AdvertisePeers = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address at which other replicas reach --listen-peers. Default: the listen address.",
    ),
]
app = typer.Typer(rich_markup_mode=None, add_completion=False)


@takes_flags
def evaluator_settings(settings: EvaluatorSettings, without: Without = None) -> EvaluatorSettings:
    """Return where nodes are evaluated; exit if the settings are invalid."""
    return replace(settings, without=tuple(one.value for one in without or ()))


class _Given(NamedTuple):
    """What the groups of options ask for, in the order of ``_SchedulerCommand.groups``."""

    flags: KubeFlags
    policy: Source
    serving: ServingFlags
    kubernetes: KubernetesOptions | None
    decisions: DecisionFlags
    evaluation: EvaluatorSettings
    client: ClientOptions
    etcd: EtcdOptions
    telemetry: TelemetrySettings


class _SchedulerCommand(KubeCommand):
    groups = (
        kube_flags,
        policy_source,
        serving_flags,
        kubernetes_options,
        decision_flags,
        evaluator_settings,
        client_options,
        etcd_options,
        telemetry_settings,
    )


@app.command(cls=_SchedulerCommand)
def scheduler(
    ctx: typer.Context,
    server: Server = "",
    config: ConfigFile = None,
    identity: Identity = "",
    leader_priority: LeaderPriority = 0,
    listen_peers: ListenPeers = LOOPBACK,
    advertise_peers: AdvertisePeers = "",
    health_listen: HealthListen = LOOPBACK,
    web_listen: WebListen = None,
    insecure_listen: InsecureListen = False,
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Run a scheduler replica; it schedules pods while it holds the lease."""
    from podsched.app.replica import ReplicaOptions, run_replica, unique_identity

    given = _checked(ctx)
    flags, serving, client = given.flags, given.serving, given.client
    source = replace(
        given.policy, config=config, server=server, client=client, overrides=flags.overrides
    )
    configuration, _ = read_source(source)
    if flags.write_config_to is not None:
        flags.write_config_to.write_text(to_yaml(configuration))
        return
    tls = health_tls = serving_files(client)
    if serving.https:
        health_listen, health_tls = serving.address, serving.tls(client.tls_ca)
    else:
        check_client_listener("--health-listen", health_listen, tls, insecure=insecure_listen)
    election = _election(listen_peers, advertise_peers, tls, insecure=insecure_listen)
    settings = _settings(given, server, identity, leader_priority)
    own = _own_backend(settings, client, given.etcd, configuration.leader_election, election)
    options = ReplicaOptions(configuration, settings, election, own, flags.controllers, client)
    options = replace(options, read_again=again(source), shadow=given.decisions.shadow)
    telemetry = with_health(_telemetry(given, trace_ratio), health_listen)
    unique, page = unique_identity(identity), client_page(web_listen, health_tls, insecure_listen)
    process = ProcessOptions("scheduler", unique, telemetry, health_tls, serving.https, {}, page)
    run_or_fail(ctx, process, lambda p: run_replica(p, _on_kubernetes(options, given)))


def _own_backend(
    settings: SchedulerSettings,
    client: ClientOptions,
    etcd: EtcdOptions,
    lock: LeaderElectionSettings,
    election: ElectionOptions,
) -> BackendFactory:
    """Return what makes the backend of podsched's own API."""
    from podsched.app.podsched_backend import PodschedOptions

    ttl = election.liveness_ttl
    return PodschedOptions(settings.api_endpoints, client, etcd, lock, ttl).backend


def _settings(given: _Given, server: str, identity: str, priority: int) -> SchedulerSettings:
    with invalid_settings_fail():
        return SchedulerSettings(
            api_endpoints=tuple(endpoints(server)),
            identity=identity,
            leader_priority=priority,
            evaluation=given.evaluation,
            pod_max_in_unschedulable_pods_duration=(
                given.flags.pod_max_in_unschedulable_pods_duration
            ),
            decision_log=given.decisions.place,
            decision_log_size=given.decisions.size,
        )


def _telemetry(given: _Given, trace_ratio: float) -> TelemetrySettings:
    return replace(
        given.telemetry,
        log_level=given.flags.level(given.telemetry.log_level),
        log_modules=given.flags.log_modules,
        feature_gates=given.flags.gates,
        disabled_metrics=given.flags.disabled_metrics,
        open_paths=given.serving.open_paths,
        trace_sample_ratio=trace_ratio,
    )


def _election(
    listen: str, advertise: str, tls: TlsFiles | None, *, insecure: bool
) -> ElectionOptions:
    """Return where peers connect to; exit if strangers could."""
    from podsched.term.election.options import ElectionOptions

    host, port = check_client_listener("--listen-peers", listen, tls, insecure=insecure)
    return ElectionOptions(listen_host=host, listen_port=port, advertise_address=advertise, tls=tls)


def _on_kubernetes(options: ReplicaOptions, given: _Given) -> ReplicaOptions:
    """Return the options of a replica for a Kubernetes cluster, if one is named.

    Its Leases know no liveness key, and Ray actors cannot bind there.
    """
    from podsched.app.kube_backend import KubeOptions

    kubernetes, coordinated = given.kubernetes, given.flags.coordinated
    if kubernetes is None:
        return options
    config, election, evaluation = options.config, options.election, options.settings.evaluation
    connection, lock = config.effective.client_connection, config.leader_election
    host = election.listen_host if kubernetes.early else None
    cluster = KubeOptions(
        kubernetes.access, connection, lock, early=kubernetes.early, coordinated=coordinated
    )
    return replace(
        options,
        settings=replace(options.settings, evaluation=replace(evaluation, binder="direct")),
        election=replace(election, listen_host=host, liveness_ttl=0, coordinated=coordinated),
        backend=cluster.backend,
    )


def _checked(ctx: typer.Context) -> _Given:
    """Return what the groups of options ask for; exit if they name two clusters."""
    given = _Given(*ctx.obj)
    if given.flags.coordinated and (given.kubernetes is None or given.kubernetes.early):
        needs = "needs --kubeconfig or --in-cluster, and --takeover lease"
        fail(f"--feature-gates CoordinatedLeaderElection=true {needs}", USAGE)
    if given.kubernetes is None:
        return given
    # SCHED_SERVER may be set for other commands.
    source = ctx.get_parameter_source("server")
    if source is not None and source.name == "COMMANDLINE":
        fail("--server and --kubeconfig name two clusters: use one of them", USAGE)
    if given.policy.policy_configmap:
        fail("--policy-configmap is read from podsched's API server: use a file", USAGE)
    honoured = ("clientConnection.qps", "clientConnection.burst")
    return given._replace(policy=replace(given.policy, honoured=honoured))
