"""``sched apiserver``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from podsched.app.process import Process, ProcessOptions
from podsched.cli.audit_options import AuditFlags
from podsched.cli.authentication_options import check_tokens, jwt_settings
from podsched.cli.errors import USAGE, fail, file_or_fail
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command
from podsched.cli.process_options import (
    PageFlags,
    check_listener,
    etcd_options,
    instance_of,
    run_or_fail,
    telemetry_settings,
    web_address,
)
from podsched.config.flags import flag
from podsched.config.settings import TelemetrySettings
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.endpoints import EtcdOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, slots=True)
class _Flags(PageFlags):
    listen: str = flag("127.0.0.1:7443", "HOST:PORT")
    """Listen address of the gRPC API."""
    workers: int = flag(1, "N", min=1, max=64)
    """Number of processes that serve these addresses together; for machines with more cores than
    one server uses. Limits such as --max-connections are each process's."""
    as_worker: str = flag("", hidden=True)
    """INDEX/WORKERS:SOCKET, given by the parent."""


@app.command(cls=Command)
@takes_flags
def apiserver(
    ctx: typer.Context,
    settings: ServerSettings,
    given: _Flags,
    etcd: EtcdOptions,
    jwt: JwtSettings,
    audit: AuditFlags,
    telemetry: TelemetrySettings,
) -> None:
    """Serve the gRPC API, and Kubernetes' REST API if asked to, in front of etcd."""
    from podsched.app.apiserver import run_apiserver

    etcd = etcd_options(etcd)
    listening = (given.listen, given.health_listen, settings.kube_listen, given.web_listen)
    host, port = _checked_listeners(listening, bool(settings.tls_cert), given.insecure_listen)
    settings = replace(
        settings, host=host, port=port, jwt=jwt_settings(jwt), audit=audit.settings()
    )
    _check_files(settings)
    check_tokens(settings)
    telemetry = telemetry_settings(telemetry, given.health_listen, given.trace_ratio)
    instance, page = instance_of(given.listen), web_address(given.web_listen)
    tls = _health_tls(settings)
    options = ProcessOptions("apiserver", instance, telemetry, tls, web_listen=page)
    if given.as_worker:
        settings, options = _worker(given.as_worker, settings, options)
    elif given.workers > 1:
        _run_workers(ctx, given, settings, replace(options, web_listen=None))
    run_or_fail(ctx, options, lambda process: run_apiserver(process, settings, etcd))


def _run_workers(
    ctx: typer.Context, given: _Flags, settings: ServerSettings, options: ProcessOptions
) -> None:
    from podsched.app.workers import Reserved, run_workers

    shared = {
        "--listen": given.listen,
        "--kube-listen": settings.kube_listen,
        "--token-listen": settings.token_listen,
    }

    async def run(process: Process) -> None:
        with ExitStack() as stack:
            reserved = [
                f"{option}={stack.enter_context(Reserved(address)).address}"
                for option, address in shared.items()
                if address
            ]

            def arguments(index: int, health: Path) -> list[str]:
                # This command's own; of an option the last one counts. One page is enough.
                page = ["--web-listen="] if index else []
                worker = f"--as-worker={index}/{given.workers}:{health}"
                return [*sys.argv[1:], *reserved, *page, worker]

            await run_workers(process, given.workers, arguments)

    run_or_fail(ctx, options, run)


def _worker(
    given: str, settings: ServerSettings, options: ProcessOptions
) -> tuple[ServerSettings, ProcessOptions]:
    """Return the settings of one of several workers.

    Its health server is its parent's alone. Each writes an audit log of its own: a file that
    several write cannot be renamed when it is full.
    """
    place, _, health = given.partition(":")
    index, _, workers = place.partition("/")
    audit = settings.audit
    if audit is not None:
        audit = replace(audit, path=audit.path.with_name(f"{audit.path.name}.{index}"))
    settings = replace(settings, worker=int(index), workers=int(workers), audit=audit)
    telemetry = replace(options.telemetry, health_host=health, health_port=0)
    instance = f"{options.instance}_{index}"
    return settings, replace(options, instance=instance, telemetry=telemetry, health_tls=None)


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


def _check_files(settings: ServerSettings) -> None:
    """Exit unless the files of TLS are there and go together."""
    cert, key, client_ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    if bool(cert) != bool(key):
        fail("--tls-cert and --tls-key must be used together", USAGE)
    if client_ca and not cert:
        fail("--tls-client-ca needs --tls-cert and --tls-key", USAGE)
    for option, file in (("cert", cert), ("key", key), ("client-ca", client_ca)):
        file_or_fail(f"--tls-{option}", file)
