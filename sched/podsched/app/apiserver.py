"""Run the API server process: wire its parts, start their tasks, stop them in order."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from podsched.app.page_leadership import LeasedLeadership
from podsched.app.process import Process
from podsched.ask.web.server import PageServices
from podsched.lib.network import is_loopback
from podsched.lib.tasks import TaskSet
from podsched.serve.client.server_health import ETCD
from podsched.serve.server.audit.log import AuditLog
from podsched.serve.server.call_metrics import ServerTelemetry
from podsched.serve.server.fairness.flow_metrics import FlowTelemetry
from podsched.serve.server.rest.probes import Probes
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.etcd import connect
from podsched.telemetry.health import Probe
from podsched.telemetry.http_server import HttpServer
from podsched.telemetry.logs import get_logger

if TYPE_CHECKING:
    from podsched.serve.server.rest.visibility import PendingSource

_log = get_logger("apiserver")


async def run_apiserver(process: Process, settings: ServerSettings, etcd: EtcdOptions) -> None:
    """Serve until the process is asked to stop; an error of any task ends it.

    Raises:
        OSError: the address cannot be used, or the audit log cannot be written.
        StoreError: etcd cannot be reached.
    """
    audit = AuditLog(settings.audit) if settings.audit is not None else None
    store = await connect(etcd)
    telemetry = ServerTelemetry(process.registry, process.tracer)
    flow_telemetry = FlowTelemetry(process.registry)
    probes = Probes(process.checks, process.registry.render)
    server = ApiServer(
        settings,
        store,
        observer=telemetry,
        flow_observer=flow_telemetry,
        audit=audit,
        probes=probes,
        pending_of=_pending_of,
    )
    telemetry.follow(server.core)
    if audit is not None:
        audit.start()
        telemetry.follow_audit(audit)
    flow_telemetry.follow(server.gate.flows)
    _add_checks(process, server)
    health = await process.serve_health()
    tasks = TaskSet("API server")
    page: HttpServer | None = None
    try:
        await server.start()
        _say_where(settings, server, health)
        _say_who_may_do_what(settings, server)
        page = await _serve_page(process, tasks, server, probes)
        if server.jwt is not None:
            # Returns at once if the keys are in a file.
            tasks.start(server.jwt.run(), "follow the issuer's keys")
        if server.signer is not None:
            tasks.start(server.signer.run(), "sign certificates of kubelets", endless=True)
        if server.advertiser is not None:
            tasks.start(server.advertiser.run(), "advertise to pods", endless=True)
        tasks.start(server.wait(), "follow etcd", endless=True)
        tasks.start(store.wait(), "write to etcd", endless=True)
        # Returns at once if etcd compacts itself.
        tasks.start(server.core.compactor.run(), "compact etcd")
        tasks.start(server.core.quota_recounter.run(), "recount quotas", endless=True)
        monitor, told = server.core.etcd, partial(server.set_serving, names=[ETCD])
        tasks.start(monitor.run(server.set_serving), "monitor etcd", endless=True)
        tasks.start(monitor.run_fast(told), "monitor etcd for clients", endless=True)
        tasks.start(process.end_when_asked(tasks), "wait for the stop")
        await tasks.run()
    finally:
        if page is not None:
            await page.stop()
        await server.stop()
        await health.stop()
        await store.close()
        if audit is not None:
            await asyncio.to_thread(audit.stop)


def _add_checks(process: Process, server: ApiServer) -> None:
    process.checks.add("etcd", lambda: server.core.etcd.problem, {Probe.READYZ})
    process.checks.add(
        "watch-cache",
        lambda: "" if server.ready else "the watch cache is not loaded",
        {Probe.READYZ, Probe.HEALTHZ},
    )


def _pending_of(cache: WatchCache) -> PendingSource:
    """Return the source of pending workloads; called only if the REST API is served.

    Imported here, because it imports the scheduler's code and NumPy.
    """
    from podsched.app.pending_workloads import PendingWorkloads

    return PendingWorkloads(cache)


async def _serve_page(
    process: Process, tasks: TaskSet, server: ApiServer, probes: Probes
) -> HttpServer | None:
    """Serve the page if enabled; the REST API's handlers carry out its actions."""
    if process.options.web_listen is None:
        return None
    from podsched.app.apiserver_page import CallerApi, WatchCacheSource
    from podsched.serve.server.rest.handling import Handler

    source = WatchCacheSource(server.core.cache)
    pipeline = server.pipeline
    face = CallerApi(Handler(server.core, pipeline, probes), server.scheduling, pipeline)
    return await process.serve_page(
        tasks, source, LeasedLeadership(source), PageServices(face, face)
    )


def _say_where(settings: ServerSettings, server: ApiServer, health: HttpServer) -> None:
    _log.info(
        "Serving",
        address=server.address,
        health=health.url,
        tls=bool(settings.tls_cert),
        kube_port=server.kube_port or None,
        **({"worker": settings.worker} if settings.workers > 1 else {}),
    )


def _say_who_may_do_what(settings: ServerSettings, server: ApiServer) -> None:
    """Log how callers are authenticated: an operator should read it before others connect."""
    if settings.authenticates:
        accepted = [
            name
            for name, is_accepted in (
                ("client certificates", settings.tls_client_ca),
                ("tokens", settings.token_file),
                ("tokens of ServiceAccounts", settings.service_accounts.token_key),
                (f"JWTs of {settings.jwt.issuer}" if settings.jwt else "", settings.jwt),
            )
            if is_accepted
        ]
        _log.info(
            "Callers are authenticated and may do what roles permit",
            by=", ".join(accepted),
            tokens_at=server.token_port or None,
        )
    elif is_loopback(settings.host):
        _log.info("No authentication: everyone on this machine is cluster-admin")
    else:
        _log.warning(
            "No authentication: everyone who can reach this address is cluster-admin",
            tls=bool(settings.tls_cert),
        )
