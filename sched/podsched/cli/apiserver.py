"""``sched apiserver``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from podsched.app.process import ProcessOptions
from podsched.cli.audit_options import (
    AuditLogFile,
    AuditMaxAge,
    AuditMaxBackup,
    AuditMaxSize,
    AuditPolicyFile,
    audit_settings,
)
from podsched.cli.authentication_options import (
    Audience,
    GroupsClaim,
    Issuer,
    Jwks,
    JwtOptions,
    TokenHashes,
    TokenListen,
    UserClaim,
    with_tokens,
)
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
    InsecureListen,
    LogFormatOption,
    LogLevelOption,
    Otlp,
    TraceRatio,
    WebListen,
    check_listener,
    etcd_options,
    instance_of,
    run_or_fail,
    telemetry_settings,
    web_address,
)
from podsched.lib.tls_contexts import TlsFiles
from podsched.server.settings import ServerSettings

DEFAULTS = ServerSettings()


_TLS, _STORAGE, _WATCHES = "TLS", "Storage", "Watches"

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Listen address of the gRPC API.")]
KubeListen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Listen address of Kubernetes' REST API over HTTP, for kubectl and client libraries.",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=_TLS, help="Server certificate chain; turns on TLS."
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_TLS, help="Private key of --tls-cert."),
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_TLS,
        help="CA certificates to verify clients with; requires a certificate of every client.",
    ),
]
CompactionInterval = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.0,
        rich_help_panel=_STORAGE,
        help="Interval at which etcd's history is compacted; 0 leaves that to etcd.",
    ),
]
Quota = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=1,
        rich_help_panel=_STORAGE,
        help="etcd's --quota-backend-bytes; a warning is logged at 80 % of it.",
    ),
]
EventTtl = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        min=1,
        rich_help_panel=_STORAGE,
        help="Time after which Event objects are deleted.",
    ),
]
MaxEvents = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=_STORAGE,
        help="Number of Event objects beyond which the oldest are deleted.",
    ),
]
RequireNamespaces = Annotated[
    bool,
    typer.Option(
        "--require-namespaces",
        help="Refuse objects in namespaces that do not exist, instead of making them.",
    ),
]
CacheEvents = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        rich_help_panel=_WATCHES,
        help="Number of changes kept in memory for watches that lag or resume.",
    ),
]
CacheBytes = Annotated[
    int,
    typer.Option(
        metavar="BYTES",
        min=1,
        rich_help_panel=_WATCHES,
        help="Maximum size of these changes, in bytes of encoded events.",
    ),
]
BookmarkInterval = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.05,
        max=5.0,
        rich_help_panel=_WATCHES,
        help="Time after which an idle watch gets a bookmark with the current revision.",
    ),
]


def apiserver(
    ctx: typer.Context,
    listen: Listen = "127.0.0.1:7443",
    kube_listen: KubeListen = None,
    insecure_listen: InsecureListen = False,
    etcd_endpoints: EtcdEndpoints = "127.0.0.1:2379",
    etcd_ca: EtcdCa = None,
    etcd_cert: EtcdCert = None,
    etcd_key: EtcdKey = None,
    etcd_username: EtcdUser = "",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    token_file: TokenHashes = None,
    token_listen: TokenListen = None,
    jwt_issuer: Issuer = "",
    jwt_audience: Audience = "",
    jwt_jwks: Jwks = "",
    jwt_user_claim: UserClaim = "sub",
    jwt_groups_claim: GroupsClaim = "groups",
    require_namespaces: RequireNamespaces = False,
    etcd_compaction_interval: CompactionInterval = DEFAULTS.compaction_interval_seconds,
    etcd_quota_bytes: Quota = DEFAULTS.etcd_quota_bytes,
    event_ttl: EventTtl = DEFAULTS.event_ttl_seconds,
    max_events: MaxEvents = DEFAULTS.max_events,
    watch_cache_events: CacheEvents = DEFAULTS.watch_cache_events,
    watch_cache_bytes: CacheBytes = DEFAULTS.watch_cache_bytes,
    watch_bookmark_interval: BookmarkInterval = DEFAULTS.bookmark_seconds,
    audit_log: AuditLogFile = None,
    audit_policy: AuditPolicyFile = None,
    audit_maxsize: AuditMaxSize = 100,
    audit_maxbackup: AuditMaxBackup = 10,
    audit_maxage: AuditMaxAge = 0,
    health_listen: HealthListen = LOOPBACK,
    web_listen: WebListen = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
    otlp_endpoint: Otlp = "",
    trace_ratio: TraceRatio = 0.01,
) -> None:
    """Serve the gRPC API, and Kubernetes' REST API if asked to, in front of etcd."""
    from podsched.app.apiserver import run_apiserver

    listening = (listen, health_listen, kube_listen, web_listen)
    host, port = _checked_listeners(listening, bool(tls_cert), insecure_listen)
    jwt = JwtOptions(jwt_issuer, jwt_audience, jwt_jwks, jwt_user_claim, jwt_groups_claim)
    etcd = etcd_options(etcd_endpoints, etcd_ca, etcd_cert, etcd_key, etcd_username)
    base = _settings(host, port, kube_listen, tls_cert, tls_key, tls_client_ca)
    settings = replace(
        with_tokens(base, token_file, token_listen, jwt),
        require_namespaces=require_namespaces,
        **_storage(etcd_compaction_interval, etcd_quota_bytes, event_ttl, max_events),
        **_watches(watch_cache_events, watch_cache_bytes, watch_bookmark_interval),
        audit=audit_settings(audit_log, audit_policy, audit_maxsize, audit_maxbackup, audit_maxage),
    )
    telemetry = telemetry_settings(health_listen, log_format, log_level, otlp_endpoint, trace_ratio)
    instance, page = instance_of(listen), web_address(web_listen)
    tls = _health_tls(settings)
    options = ProcessOptions("apiserver", instance, telemetry, tls, web_listen=page)
    run_or_fail(ctx, options, lambda process: run_apiserver(process, settings, etcd))


def _checked_listeners(
    addresses: tuple[str | None, ...], tls: bool, insecure: bool
) -> tuple[str, int]:
    """Return host and port of the API; exit if an address may not be listened on."""
    remedy = "--tls-cert, --tls-key and --tls-client-ca"
    options = ("--listen", "--health-listen", "--kube-listen", "--web-listen")
    checked = [
        check_listener(option, address, tls=tls, insecure=insecure, remedy=remedy)
        for option, address in zip(options, addresses, strict=True)
        if address
    ]
    return checked[0]


def _health_tls(settings: ServerSettings) -> TlsFiles | None:
    if not settings.tls_cert:
        return None
    return TlsFiles(settings.tls_client_ca, settings.tls_cert, settings.tls_key)


def _storage(interval: float, quota: int, ttl: int, events: int) -> dict[str, Any]:
    return {
        "compaction_interval_seconds": interval,
        "etcd_quota_bytes": quota,
        "event_ttl_seconds": ttl,
        "max_events": events,
    }


def _watches(events: int, size: int, bookmark: float) -> dict[str, Any]:
    return {"watch_cache_events": events, "watch_cache_bytes": size, "bookmark_seconds": bookmark}


def _settings(
    host: str,
    port: int,
    kube_listen: str | None,
    cert: Path | None,
    key: Path | None,
    client_ca: Path | None,
) -> ServerSettings:
    if (cert is None) != (key is None):
        fail("--tls-cert and --tls-key must be used together", USAGE)
    if client_ca is not None and cert is None:
        fail("--tls-client-ca needs --tls-cert and --tls-key", USAGE)
    return ServerSettings(
        host=host,
        port=port,
        kube_listen=kube_listen or "",
        tls_cert=file_or_fail("--tls-cert", cert),
        tls_key=file_or_fail("--tls-key", key),
        tls_client_ca=file_or_fail("--tls-client-ca", client_ca),
    )


__all__ = ["apiserver"]
