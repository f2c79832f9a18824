"""The long-running commands: apiserver, scheduler, agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsched.app.process import ProcessOptions
from podsched.cli.client import (
    USAGE,
    Server,
    TlsCa,
    TlsCert,
    TlsKey,
    client_options,
    endpoints,
    fail,
    file_or_fail,
)
from podsched.cli.enums import Evaluator, LogFormat, LogLevel
from podsched.cli.process_options import (
    LOOPBACK,
    EtcdCa,
    EtcdCert,
    EtcdEndpoints,
    EtcdKey,
    EtcdUser,
    HealthListen,
    LogFormatOption,
    LogLevelOption,
    Otlp,
    TraceRatio,
    etcd_options,
    read_config,
    run_or_fail,
    split_address,
    telemetry_settings,
)
from podsched.config.errors import ConfigError
from podsched.config.settings import (
    AgentSettings,
    ControllerSettings,
    EvaluatorSettings,
    SchedulerSettings,
)
from podsched.server.settings import ServerSettings

_NODES = "Nodes and pods"


def apiserver(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of the gRPC API.")
    ] = "127.0.0.1:7443",
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate chain to serve TLS with.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Authorities whose client certificates are demanded of everyone."
        ),
    ] = None,
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Serve the gRPC API in front of etcd. Several may run side by side."""
    from podsched.app.apiserver import run_apiserver

    host, port = split_address("--listen", listen)
    etcd = etcd_options(etcd_endpoints, etcd_ca, etcd_cert, etcd_key, etcd_username)
    if (tls_cert is None) != (tls_key is None):
        fail("--tls-cert and --tls-key go together", USAGE)
    if tls_client_ca is not None and tls_cert is None:
        fail("--tls-client-ca: client certificates need TLS: --tls-cert and --tls-key", USAGE)
    settings = ServerSettings(
        host=host,
        port=port,
        tls_cert=file_or_fail("--tls-cert", tls_cert),
        tls_key=file_or_fail("--tls-key", tls_key),
        tls_client_ca=file_or_fail("--tls-client-ca", tls_client_ca),
    )
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    options = ProcessOptions("apiserver", listen, telemetry)
    run_or_fail(options, lambda process: run_apiserver(process, settings, etcd))


def scheduler(
    server: Server = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A KubeSchedulerConfiguration.")
    ] = None,
    identity: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name of this replica, to which a random part is added; the host's by default.",
        ),
    ] = "",
    evaluator: Annotated[
        Evaluator,
        typer.Option(
            help="Where nodes are filtered and scored: in this process, by Ray actors while there "
            "are some, or auto: by Ray for very many nodes."
        ),
    ] = Evaluator.AUTO,
    ray_address: Annotated[
        str,
        typer.Option(envvar="RAY_ADDRESS", metavar="HOST:PORT", help="Ray cluster to join."),
    ] = "",
    ray_shards: Annotated[
        int, typer.Option(min=0, help="Evaluator actors; 0: one for each CPU of Ray's.")
    ] = 0,
    listen_peers: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the other replicas connect to notice at once when this one dies.",
        ),
    ] = LOOPBACK,
    advertise_peers: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="The same as others reach it; by default as listened on."
        ),
    ] = "",
    pod_max_in_unschedulable_pods_duration: Annotated[
        float,
        typer.Option(
            rich_help_panel=_NODES,
            help="Seconds after which a pod is tried again though no event woke it.",
        ),
    ] = 300.0,
    node_monitor_period: Annotated[
        float,
        typer.Option(
            rich_help_panel=_NODES, help="Seconds between two looks at the nodes' heartbeats."
        ),
    ] = 5.0,
    node_monitor_grace_period: Annotated[
        float,
        typer.Option(
            rich_help_panel=_NODES, help="Seconds of silence after which a node is unreachable."
        ),
    ] = 40.0,
    node_eviction_rate: Annotated[
        float,
        typer.Option(
            rich_help_panel=_NODES,
            help="Unreachable nodes of a healthy zone tainted NoExecute a second.",
        ),
    ] = 0.1,
    terminated_pod_gc_threshold: Annotated[
        int,
        typer.Option(
            rich_help_panel=_NODES,
            help="Finished pods kept; beyond it the oldest are deleted. 0: all stay.",
        ),
    ] = 12_500,
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Run a scheduler replica: it stands by, and schedules while it leads."""
    from podsched.app.replica import ReplicaOptions, run_replica
    from podsched.election.elector import ElectionOptions

    host, port = split_address("--listen-peers", listen_peers)
    try:
        settings = SchedulerSettings(
            api_endpoints=tuple(endpoints(server)),
            identity=identity,
            evaluation=EvaluatorSettings(
                evaluator=evaluator.value,
                ray_address=ray_address,
                shards=ray_shards,
            ),
            pod_max_in_unschedulable_pods_duration=pod_max_in_unschedulable_pods_duration,
        )
        controllers = ControllerSettings(
            node_monitor_period=node_monitor_period,
            node_monitor_grace_period=node_monitor_grace_period,
            node_eviction_rate=node_eviction_rate,
            terminated_pod_gc_threshold=terminated_pod_gc_threshold,
        )
    except ConfigError as exc:
        fail(str(exc), USAGE)
    options = ReplicaOptions(
        read_config(config),
        settings,
        etcd_options(etcd_endpoints, etcd_ca, etcd_cert, etcd_key, etcd_username),
        ElectionOptions(listen_host=host, listen_port=port, advertise_address=advertise_peers),
        controllers,
        client_options(tls_ca, tls_cert, tls_key),
    )
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    run_or_fail(
        ProcessOptions("scheduler", identity, telemetry),
        lambda process: run_replica(process, options),
    )


def agent(
    server: Server = "",
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    nodes: Annotated[int, typer.Option(min=0, help="Hollow nodes to register.")] = 0,
    node_cpu: Annotated[str, typer.Option(help="CPU of each.")] = "4",
    node_memory: Annotated[str, typer.Option(help="Memory of each.")] = "32Gi",
    node_pods: Annotated[int, typer.Option(min=1, help="Pods that each takes.")] = 110,
    node_prefix: Annotated[
        str, typer.Option(help="The nodes are called this and a number.")
    ] = "node-",
    zones: Annotated[
        str, typer.Option(metavar="ZONE[,...]", help="Zones that the nodes get in turn.")
    ] = "",
    manifests: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|DIR",
            help="Nodes to register, as manifests; the annotation podsched.io/count says how many "
            "of each.",
        ),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Play the nodes that others have registered, too.")
    ] = False,
    heartbeat: Annotated[
        float, typer.Option(help="Seconds between two heartbeats of a node.")
    ] = 10.0,
    run_delay: Annotated[
        float, typer.Option(help="Seconds from a pod's binding to Running.")
    ] = 0.0,
    volume_controller: Annotated[
        bool, typer.Option(help="Bind claims to volumes and provision volumes.")
    ] = True,
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Play hollow nodes: they register, send heartbeats, run pods and end them."""
    from podsched.agent.nodes import nodes_of_manifests
    from podsched.api.objects import Node
    from podsched.app.hollow import run_hollow_nodes
    from podsched.cli.manifests import read_manifests

    given = []
    for obj in read_manifests(manifests, "", strict=False) if manifests else []:
        if not isinstance(obj, Node):
            fail(f"--manifests: {obj.metadata.name} is not a Node", USAGE)
        given.append(obj)
    try:
        settings = AgentSettings(
            api_endpoints=tuple(endpoints(server)),
            nodes=nodes,
            node_name_prefix=node_prefix,
            node_cpu=node_cpu,
            node_memory=node_memory,
            node_pods=node_pods,
            heartbeat_period=heartbeat,
            run_delay=run_delay,
            zones=tuple(z for z in zones.split(",") if z),
            adopt=adopt,
            volume_controller=volume_controller,
        )
    except ConfigError as exc:
        fail(str(exc), USAGE)
    client = client_options(tls_ca, tls_cert, tls_key)
    telemetry = telemetry_settings(health_listen, log_format, log_level, "", 0.0)
    run_or_fail(
        ProcessOptions("agent", node_prefix, telemetry),
        lambda process: run_hollow_nodes(process, settings, nodes_of_manifests(given), client),
    )
