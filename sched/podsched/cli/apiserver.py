"""``sched apiserver``."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.process import Process, ProcessOptions
from podsched.cli.audit_options import audit_settings
from podsched.cli.authentication_options import check_tokens, jwt_settings
from podsched.cli.errors import USAGE, fail, file_or_fail
from podsched.cli.flags import takes_flags
from podsched.cli.option_groups import GroupedCommand
from podsched.cli.process_options import (
    LOOPBACK,
    HealthListen,
    InsecureListen,
    TraceRatio,
    WebListen,
    check_listener,
    etcd_options,
    instance_of,
    run_or_fail,
    telemetry_settings,
    web_address,
    with_health,
)
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.server.settings import ServerSettings

Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Listen address of the gRPC API.")]
Workers = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=64,
        help="Number of processes that serve these addresses together; for machines with more "
        "cores than one server uses. Limits such as --max-connections are each process's.",
    ),
]
AsWorker = Annotated[
    str, typer.Option("--as-worker", hidden=True, help="INDEX/WORKERS:SOCKET, given by the parent.")
]
app = typer.Typer(rich_markup_mode=None, add_completion=False)


class _ApiServerCommand(GroupedCommand):
    groups = (etcd_options, jwt_settings, audit_settings, telemetry_settings)


@app.command(cls=_ApiServerCommand)
@takes_flags
def apiserver(
    ctx: typer.Context,
    settings: ServerSettings,
    listen: Listen = "127.0.0.1:7443",
    insecure_listen: InsecureListen = False,
    health_listen: HealthListen = LOOPBACK,
    web_listen: WebListen = None,
    trace_ratio: TraceRatio = 0.01,
    workers: Workers = 1,
    as_worker: AsWorker = "",
) -> None:
    """Serve the gRPC API, and Kubernetes' REST API if asked to, in front of etcd."""
    from podsched.app.apiserver import run_apiserver

    etcd, jwt, audit, telemetry = ctx.obj
    listening = (listen, health_listen, settings.kube_listen, web_listen)
    host, port = _checked_listeners(listening, bool(settings.tls_cert), insecure_listen)
    settings = replace(settings, host=host, port=port, jwt=jwt, audit=audit)
    _check_files(settings)
    check_tokens(settings)
    telemetry = replace(with_health(telemetry, health_listen), trace_sample_ratio=trace_ratio)
    instance, page = instance_of(listen), web_address(web_listen)
    tls = _health_tls(settings)
    options = ProcessOptions("apiserver", instance, telemetry, tls, web_listen=page)
    if as_worker:
        settings, options = _worker(as_worker, settings, options)
    elif workers > 1:
        _run_workers(ctx, workers, settings, replace(options, web_listen=None))
    run_or_fail(ctx, options, lambda process: run_apiserver(process, settings, etcd))


def _run_workers(
    ctx: typer.Context, workers: int, settings: ServerSettings, options: ProcessOptions
) -> None:
    from podsched.app.workers import Reserved, run_workers

    shared = {
        "--listen": ctx.params["listen"],
        "--kube-listen": settings.kube_listen,
        "--token-listen": settings.token_listen,
    }

    async def run(process: Process) -> None:
        with ExitStack() as stack:
            given = [
                f"{option}={stack.enter_context(Reserved(address)).address}"
                for option, address in shared.items()
                if address
            ]

            def arguments(index: int, health: Path) -> list[str]:
                # This command's own; of an option the last one counts. One page is enough.
                page = ["--web-listen="] if index else []
                worker = f"--as-worker={index}/{workers}:{health}"
                return [*sys.argv[1:], *given, *page, worker]

            await run_workers(process, workers, arguments)

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
