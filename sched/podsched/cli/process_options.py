"""Options that the long-running commands share, and what becomes of them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.process import Process, ProcessOptions, run_process
from podsched.cli.client import (
    FAILED,
    USAGE,
    fail,
    file_or_fail,
    warn,
)
from podsched.cli.enums import LogFormat, LogLevel
from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, default_config, load_config
from podsched.config.settings import (
    TelemetrySettings,
)
from podsched.engine.runtime.user_plugins import check_plugins, user_plugin_specs
from podsched.framework.plugin import PluginError
from podsched.store.endpoints import EtcdOptions
from podsched.store.errors import StoreError
from podsched.telemetry.http import HealthServerError

_ETCD, _SEEN = "etcd", "To be seen"

EtcdEndpoints = Annotated[
    str,
    typer.Option(
        "--etcd-endpoints",
        rich_help_panel=_ETCD,
        envvar="SCHED_ETCD_ENDPOINTS",
        metavar="HOST:PORT[,...]",
        help="The members of etcd.",
    ),
]
EtcdCa = Annotated[
    Path | None,
    typer.Option(
        "--etcd-ca",
        rich_help_panel=_ETCD,
        metavar="FILE",
        help="Authorities that etcd's certificate is checked against (turns TLS on).",
    ),
]
EtcdCert = Annotated[
    Path | None,
    typer.Option(
        "--etcd-cert", rich_help_panel=_ETCD, metavar="FILE", help="Certificate to show to etcd."
    ),
]
EtcdKey = Annotated[
    Path | None,
    typer.Option("--etcd-key", rich_help_panel=_ETCD, metavar="FILE", help="Its private key."),
]
EtcdUser = Annotated[
    str,
    typer.Option(
        "--etcd-username",
        rich_help_panel=_ETCD,
        envvar="SCHED_ETCD_USERNAME",
        help="User for etcd's authentication; the password comes from SCHED_ETCD_PASSWORD.",
    ),
]
HealthListen = Annotated[
    str,
    typer.Option(
        "--health-listen",
        rich_help_panel=_SEEN,
        metavar="HOST:PORT",
        help="Address of /healthz, /readyz, /livez and /metrics; port 0 takes a free one.",
    ),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format",
        rich_help_panel=_SEEN,
        envvar="SCHED_LOG_FORMAT",
        help="text for people, json for machines.",
    ),
]
LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        rich_help_panel=_SEEN,
        envvar="SCHED_LOG_LEVEL",
        help="The least that is logged.",
    ),
]
Otlp = Annotated[
    str,
    typer.Option(
        "--otlp-endpoint",
        rich_help_panel=_SEEN,
        envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
        metavar="URL",
        help="Where traces go by OTLP over gRPC, such as http://host:4317; none without it.",
    ),
]
TraceRatio = Annotated[
    float,
    typer.Option(
        "--trace-ratio",
        rich_help_panel=_SEEN,
        min=0,
        max=1,
        help="Share of the scheduling attempts that are traced.",
    ),
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
    for option, path in (("--etcd-ca", ca), ("--etcd-cert", cert), ("--etcd-key", key)):
        file_or_fail(option, path)
    if (cert is None) != (key is None):
        fail("--etcd-cert and --etcd-key go together", USAGE)
    return EtcdOptions(
        endpoints=members,
        ca=ca,
        cert=cert,
        key=key,
        username=username or None,
        password=os.environ.get("SCHED_ETCD_PASSWORD") or None,
    )


def telemetry_settings(
    health_listen: str, log_format: LogFormat, log_level: LogLevel, otlp: str, ratio: float
) -> TelemetrySettings:
    """How the process can be seen, from the options."""
    host, port = split_address("--health-listen", health_listen)
    try:
        return TelemetrySettings(
            log_format=log_format.value,
            log_level=log_level.value,
            otlp_endpoint=otlp,
            trace_sample_ratio=ratio,
            health_host=host,
            health_port=port,
        )
    except ConfigError as exc:
        fail(str(exc), USAGE)


def run_or_fail(options: ProcessOptions, main: Callable[[Process], Awaitable[None]]) -> None:
    """Run a process; what an operator can cause becomes one line."""
    try:
        code = run_process(options, main)
    except (StoreError, HealthServerError, ConfigError, PluginError) as exc:
        fail(str(exc), FAILED)
    except OSError as exc:
        fail(exc.strerror or str(exc), FAILED)
    raise typer.Exit(code)


def read_config(path: Path | None) -> SchedulerConfiguration:
    """Return a KubeSchedulerConfiguration file, or the defaults; every mistake is printed before the
    exit.
    """
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
