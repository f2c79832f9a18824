"""``sched apiserver``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.process import ProcessOptions
from podsched.cli.enums import LogFormat, LogLevel
from podsched.cli.errors import USAGE, fail, file_or_fail
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
    run_or_fail,
    split_address,
    telemetry_settings,
)
from podsched.server.settings import ServerSettings

DEFAULTS = ServerSettings()


def apiserver(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Listen address of the gRPC API.")
    ] = "127.0.0.1:7443",
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Server certificate chain; turns on TLS."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert.")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CA certificates to verify clients with; requires a certificate of every client.",
        ),
    ] = None,
    etcd_compaction_interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            help="Time between compactions of etcd's history; 0 leaves them to etcd.",
        ),
    ] = DEFAULTS.compaction_interval_seconds,
    etcd_quota_bytes: Annotated[
        int,
        typer.Option(
            metavar="BYTES", min=1, help="etcd's --quota-backend-bytes; warn at 80 % of it."
        ),
    ] = DEFAULTS.etcd_quota_bytes,
    event_ttl: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="How long Event objects are kept.")
    ] = DEFAULTS.event_ttl_seconds,
    max_events: Annotated[
        int,
        typer.Option(min=1, help="Most Event objects kept; beyond it the oldest are deleted."),
    ] = DEFAULTS.max_events,
    watch_cache_events: Annotated[
        int,
        typer.Option(min=1, help="Changes kept in memory for watches that lag or resume."),
    ] = DEFAULTS.watch_cache_events,
    watch_cache_bytes: Annotated[
        int,
        typer.Option(metavar="BYTES", min=1, help="The same bound in bytes of encoded events."),
    ] = DEFAULTS.watch_cache_bytes,
    watch_bookmark_interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.05,
            max=5.0,
            help="Time after which an idle watch says how far it has come.",
        ),
    ] = DEFAULTS.bookmark_seconds,
    health_listen: HealthListen = LOOPBACK,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Serve the gRPC API in front of etcd."""
    from podsched.app.apiserver import run_apiserver

    host, port = split_address("--listen", listen)
    etcd = etcd_options(etcd_endpoints, etcd_ca, etcd_cert, etcd_key, etcd_username)
    settings = replace(
        _settings(host, port, tls_cert, tls_key, tls_client_ca),
        compaction_interval_seconds=etcd_compaction_interval,
        etcd_quota_bytes=etcd_quota_bytes,
        event_ttl_seconds=event_ttl,
        max_events=max_events,
        watch_cache_events=watch_cache_events,
        watch_cache_bytes=watch_cache_bytes,
        bookmark_seconds=watch_bookmark_interval,
    )
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    options = ProcessOptions("apiserver", listen, telemetry)
    run_or_fail(options, lambda process: run_apiserver(process, settings, etcd))


def _settings(
    host: str, port: int, cert: Path | None, key: Path | None, client_ca: Path | None
) -> ServerSettings:
    if (cert is None) != (key is None):
        fail("--tls-cert and --tls-key must be used together", USAGE)
    if client_ca is not None and cert is None:
        fail("--tls-client-ca needs --tls-cert and --tls-key", USAGE)
    return ServerSettings(
        host=host,
        port=port,
        tls_cert=file_or_fail("--tls-cert", cert),
        tls_key=file_or_fail("--tls-key", key),
        tls_client_ca=file_or_fail("--tls-client-ca", client_ca),
    )
