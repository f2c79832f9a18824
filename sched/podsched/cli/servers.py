"""The long-running commands: apiserver, scheduler, agent."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from podsched.app.process import Process, ProcessOptions, run_process
from podsched.cli.session import FAILED, USAGE, Server, endpoints, fail, warn
from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.config.settings import (
    AgentSettings,
    ControllerSettings,
    EvaluatorSettings,
    SchedulerSettings,
    TelemetrySettings,
)
from podsched.engine.user_plugins import check_plugins, user_plugin_specs
from podsched.framework.plugin import PluginError
from podsched.server.settings import ServerSettings
from podsched.store.endpoints import EtcdOptions
from podsched.store.errors import StoreError
from podsched.telemetry.http import HealthServerError

EtcdEndpoints = Annotated[
    str,
    typer.Option(
        "--etcd-endpoints",
        envvar="SCHED_ETCD_ENDPOINTS",
        help="etcd members, HOST:PORT, separated by commas.",
    ),
]
EtcdCa = Annotated[
    Path | None,
    typer.Option("--etcd-ca", help="CA certificates etcd is checked against (turns TLS on)."),
]
EtcdCert = Annotated[Path | None, typer.Option("--etcd-cert", help="Client certificate for etcd.")]
EtcdKey = Annotated[Path | None, typer.Option("--etcd-key", help="Key of the client certificate.")]
EtcdUser = Annotated[
    str,
    typer.Option(
        "--etcd-username",
        envvar="SCHED_ETCD_USERNAME",
        help="User for etcd's authentication; the password comes from SCHED_ETCD_PASSWORD.",
    ),
]
HealthListen = Annotated[
    str,
    typer.Option("--health-listen", help="Where /healthz, /readyz, /livez and /metrics listen."),
]
LogFormat = Annotated[
    str, typer.Option("--log-format", envvar="SCHED_LOG_FORMAT", help="text or json.")
]
LogLevel = Annotated[
    str,
    typer.Option("--log-level", envvar="SCHED_LOG_LEVEL", help="debug, info, warning or error."),
]
Otlp = Annotated[
    str,
    typer.Option(
        "--otlp-endpoint",
        envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
        help="Where traces go (OTLP over gRPC); nothing is traced without it.",
    ),
]
TraceRatio = Annotated[
    float, typer.Option("--trace-ratio", help="Share of the scheduling attempts that are traced.")
]
LOOPBACK = "127.0.0.1:0"


def split_address(option: str, address: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, or one line and exit."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        fail(f'{option}: "{address}" is not HOST:PORT', USAGE)
    return host.strip("[]"), int(port)


def etcd_options(
    text: str, ca: Path | None, cert: Path | None, key: Path | None, username: str
) -> EtcdOptions:
    """How to reach etcd, from the options."""
    members = tuple(part.strip() for part in text.split(",") if part.strip())
    if not members:
        fail("--etcd-endpoints: name at least one etcd member, HOST:PORT", USAGE)
    for path in (ca, cert, key):
        if path is not None and not path.is_file():
            fail(f"{path}: no such file", USAGE)
    return EtcdOptions(
        endpoints=members,
        ca=ca,
        cert=cert,
        key=key,
        username=username or None,
        password=os.environ.get("SCHED_ETCD_PASSWORD") or None,
    )


def telemetry_settings(
    health_listen: str, log_format: str, log_level: str, otlp: str, ratio: float
) -> TelemetrySettings:
    """How the process can be seen, from the options."""
    host, port = split_address("--health-listen", health_listen)
    return TelemetrySettings(
        log_format=cast(Literal["text", "json"], log_format),
        log_level=log_level,
        otlp_endpoint=otlp,
        trace_sample_ratio=ratio,
        health_host=host,
        health_port=port,
    )


def run_or_fail(options: ProcessOptions, main: Callable[[Process], Awaitable[None]]) -> None:
    """Runs a process; what an operator can cause becomes one line."""
    try:
        code = run_process(options, main)
    except (StoreError, HealthServerError, ConfigError, PluginError) as exc:
        fail(str(exc), FAILED)
    except OSError as exc:
        fail(exc.strerror or str(exc), FAILED)
    raise typer.Exit(code)


def read_config(path: Path | None) -> SchedulerConfiguration:
    """A KubeSchedulerConfiguration file, or the defaults; every mistake is printed before the
    exit."""
    if path is None:
        return default_config()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"{path}: {getattr(exc, 'strerror', None) or exc}", USAGE)
    try:
        config = load_config(text, name=str(path), known_plugins=user_plugin_specs())
        check_plugins(config)
    except PluginError as exc:
        fail(f"{path}: {exc}", USAGE)
    except ConfigError as exc:
        fail(f"the configuration has mistakes:\n{exc}", USAGE)
    for warning in config.warnings:
        warn(f"{path}: {warning}")
    return config


def apiserver(
    listen: Annotated[str, typer.Option(help="Address of the gRPC API.")] = "127.0.0.1:7443",
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    tls_cert: Annotated[str, typer.Option(help="Certificate chain to serve TLS with.")] = "",
    tls_key: Annotated[str, typer.Option(help="Key of the certificate.")] = "",
    tls_client_ca: Annotated[
        str, typer.Option(help="Demand client certificates signed by these.")
    ] = "",
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Serve the gRPC API in front of etcd."""
    from podsched.app.apiserver import run_apiserver

    host, port = split_address("--listen", listen)
    etcd = etcd_options(etcd_endpoints, etcd_ca, etcd_cert, etcd_key, etcd_username)
    settings = ServerSettings(
        host=host, port=port, tls_cert=tls_cert, tls_key=tls_key, tls_client_ca=tls_client_ca
    )
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    options = ProcessOptions("apiserver", listen, telemetry)
    run_or_fail(options, lambda process: run_apiserver(process, settings, etcd))


def scheduler(
    server: Server = "",
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    config: Annotated[
        Path | None, typer.Option("--config", help="A KubeSchedulerConfiguration file.")
    ] = None,
    identity: Annotated[
        str, typer.Option(help="Name of this replica; a random part is added. Default: the host's.")
    ] = "",
    evaluator: Annotated[
        str, typer.Option(help="Where nodes are evaluated: auto, local or ray.")
    ] = "auto",
    ray_address: Annotated[
        str, typer.Option(envvar="RAY_ADDRESS", help="Ray cluster to join, HOST:PORT.")
    ] = "",
    ray_shards: Annotated[int, typer.Option(help="Evaluator actors; 0: one for each CPU.")] = 0,
    listen_peers: Annotated[
        str, typer.Option(help="Where standbys hold their stream to this replica when it leads.")
    ] = LOOPBACK,
    advertise_peers: Annotated[
        str, typer.Option(help="The same as standbys reach it; default: as listened on.")
    ] = "",
    pod_max_in_unschedulable_pods_duration: Annotated[
        float,
        typer.Option(help="Seconds after which a pod is tried again though no event woke it."),
    ] = 300.0,
    node_monitor_period: Annotated[
        float, typer.Option(help="Seconds between two looks at the nodes' heartbeats.")
    ] = 5.0,
    node_monitor_grace_period: Annotated[
        float, typer.Option(help="Seconds of silence after which a node is unreachable.")
    ] = 40.0,
    node_eviction_rate: Annotated[
        float, typer.Option(help="Nodes of a healthy zone tainted NoExecute in a second.")
    ] = 0.1,
    terminated_pod_gc_threshold: Annotated[
        int, typer.Option(help="Finished pods kept before the oldest are deleted; 0: all.")
    ] = 12_500,
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Run a scheduler replica: it stands by, and schedules while it holds the lease."""
    from podsched.app.replica import ReplicaOptions, run_replica
    from podsched.election.elector import ElectionOptions

    host, port = split_address("--listen-peers", listen_peers)
    try:
        settings = SchedulerSettings(
            api_endpoints=tuple(endpoints(server)),
            identity=identity,
            evaluation=EvaluatorSettings(
                evaluator=evaluator,  # type: ignore[arg-type]
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
    )
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    run_or_fail(
        ProcessOptions("scheduler", identity, telemetry),
        lambda process: run_replica(process, options),
    )


def agent(
    server: Server = "",
    nodes: Annotated[int, typer.Option(min=0, help="Hollow nodes to register.")] = 0,
    node_cpu: Annotated[str, typer.Option(help="CPU of each.")] = "4",
    node_memory: Annotated[str, typer.Option(help="Memory of each.")] = "32Gi",
    node_pods: Annotated[int, typer.Option(min=1, help="Pods each takes.")] = 110,
    node_prefix: Annotated[str, typer.Option(help="Names are this and a number.")] = "node-",
    zones: Annotated[
        str, typer.Option(help="Zones given to the nodes in turn, separated by commas.")
    ] = "",
    manifests: Annotated[
        list[str] | None,
        typer.Option(help="Node manifests, file or directory; podsched.io/count says how many."),
    ] = None,
    adopt: Annotated[bool, typer.Option(help="Play all nodes of the cluster.")] = False,
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats of a node.")] = 10.0,
    run_delay: Annotated[float, typer.Option(help="Seconds from binding to Running.")] = 0.0,
    volume_controller: Annotated[bool, typer.Option(help="Bind and provision volumes.")] = True,
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> None:
    """Play hollow nodes: register, heartbeat, run pods, end pods."""
    from podsched.agent.nodes import nodes_of_manifests
    from podsched.api.objects import Node
    from podsched.app.hollow import run_hollow_nodes
    from podsched.cli.objects import read_manifests

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
    telemetry = telemetry_settings(health_listen, log_format, log_level, "", 0.0)
    run_or_fail(
        ProcessOptions("agent", node_prefix, telemetry),
        lambda process: run_hollow_nodes(process, settings, nodes_of_manifests(given)),
    )
