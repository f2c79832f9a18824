"""``sched scheduler``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsched.app.process import ProcessOptions
from podsched.cli.client import Server, TlsCa, TlsCert, TlsKey, TokenFile, client_options, endpoints
from podsched.cli.config import read_source
from podsched.cli.enums import Evaluator, LogFormat, LogLevel
from podsched.cli.errors import invalid_settings_fail
from podsched.cli.policy import AlgorithmProvider, PolicyConfigMap, PolicyFile, Source
from podsched.cli.process_options import (
    LOOPBACK,
    EtcdCa,
    EtcdCert,
    EtcdEndpoints,
    EtcdKey,
    EtcdUser,
    HealthListen,
    InsecureListen,
    LogFormatOption,
    LogLevelOption,
    Otlp,
    TraceRatio,
    check_client_listener,
    etcd_options,
    run_or_fail,
    serving_files,
    telemetry_settings,
)
from podsched.config.settings import ControllerSettings, EvaluatorSettings, SchedulerSettings

if TYPE_CHECKING:
    from podsched.election.options import ElectionOptions
    from podsched.lib.tls_contexts import TlsFiles

_QUEUE, _CONTROLLERS = "Queue", "Controllers"

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
EvaluatorOption = Annotated[
    Evaluator,
    typer.Option(
        help="Where nodes are filtered and scored: in this process (local), in Ray actors while "
        "there are any (ray), or in Ray actors for very large clusters only (auto)."
    ),
]
RayAddress = Annotated[
    str, typer.Option(envvar="RAY_ADDRESS", metavar="HOST:PORT", help="Ray cluster to join.")
]
RayShards = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Number of evaluator actors; 0: one per CPU of Ray."),
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
MaxUnschedulable = Annotated[
    float,
    typer.Option(
        rich_help_panel=_QUEUE,
        metavar="SECONDS",
        help="Time after which an unschedulable pod is retried without an event.",
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


def scheduler(
    server: Server = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: TokenFile = None,
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    config: ConfigFile = None,
    policy_config_file: PolicyFile = None,
    policy_configmap: PolicyConfigMap = "",
    algorithm_provider: AlgorithmProvider = "",
    identity: Identity = "",
    evaluator: EvaluatorOption = Evaluator.AUTO,
    ray_address: RayAddress = "",
    ray_shards: RayShards = 0,
    listen_peers: ListenPeers = LOOPBACK,
    advertise_peers: AdvertisePeers = "",
    pod_max_in_unschedulable_pods_duration: MaxUnschedulable = 300.0,
    node_monitor_period: MonitorPeriod = 5.0,
    node_monitor_grace_period: MonitorGracePeriod = 40.0,
    node_eviction_rate: EvictionRate = 0.1,
    terminated_pod_gc_threshold: GcThreshold = 12_500,
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    health_listen: HealthListen = LOOPBACK,
    insecure_listen: InsecureListen = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Run a scheduler replica; it schedules pods while it holds the lease."""
    from podsched.app.replica import ReplicaOptions, run_replica

    client = client_options(tls_ca, tls_cert, tls_key, token_file)
    tls = serving_files(client)
    check_client_listener("--health-listen", health_listen, tls, insecure=insecure_listen)
    election = _election(listen_peers, advertise_peers, tls, insecure=insecure_listen)
    with invalid_settings_fail():
        evaluation = EvaluatorSettings(
            evaluator=evaluator.value, ray_address=ray_address, shards=ray_shards
        )
        settings = SchedulerSettings(
            api_endpoints=tuple(endpoints(server)),
            identity=identity,
            evaluation=evaluation,
            pod_max_in_unschedulable_pods_duration=pod_max_in_unschedulable_pods_duration,
        )
        periods = node_monitor_period, node_monitor_grace_period
        controllers = _controllers(periods, node_eviction_rate, terminated_pod_gc_threshold)
    etcd = etcd_options(etcd_endpoints, etcd_ca, etcd_cert, etcd_key, etcd_username)
    source = Source(
        config, policy_config_file, policy_configmap, algorithm_provider, server, client
    )
    options = ReplicaOptions(read_source(source)[0], settings, etcd, election, controllers, client)
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    process = ProcessOptions("scheduler", identity, telemetry, tls)
    run_or_fail(process, lambda p: run_replica(p, options))


def _controllers(
    monitoring: tuple[float, float], eviction_rate: float, gc_threshold: int
) -> ControllerSettings:
    return ControllerSettings(
        node_monitor_period=monitoring[0],
        node_monitor_grace_period=monitoring[1],
        node_eviction_rate=eviction_rate,
        terminated_pod_gc_threshold=gc_threshold,
    )


def _election(
    listen: str, advertise: str, tls: TlsFiles | None, *, insecure: bool
) -> ElectionOptions:
    """Return where peers connect to; exit if strangers could."""
    from podsched.election.options import ElectionOptions

    host, port = check_client_listener("--listen-peers", listen, tls, insecure=insecure)
    return ElectionOptions(listen_host=host, listen_port=port, advertise_address=advertise, tls=tls)
