"""The API server process."""

from __future__ import annotations

import asyncio

from podsched.app.process import Process
from podsched.lib.network import is_loopback
from podsched.server.call_metrics import ServerTelemetry
from podsched.server.server import ApiServer
from podsched.server.settings import ServerSettings
from podsched.store.endpoints import EtcdOptions
from podsched.store.etcd import connect
from podsched.telemetry.health import Probe
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")


async def run_apiserver(process: Process, settings: ServerSettings, etcd: EtcdOptions) -> None:
    """Serve until the process is asked to stop; an error of the feed ends it.

    Raises:
        OSError: the address cannot be had. StoreError: etcd cannot be reached.
    """
    store = await connect(etcd)
    telemetry = ServerTelemetry(process.registry, process.tracer)
    server = ApiServer(settings, store, observer=telemetry)
    telemetry.follow(server.core)
    process.checks.add("etcd", lambda: server.core.etcd.problem, {Probe.READYZ})
    process.checks.add(
        "watch-cache",
        lambda: "" if server.ready else "the watch cache is not loaded",
        {Probe.READYZ, Probe.HEALTHZ},
    )
    health = await process.serve_health()
    try:
        await server.start()
        tls = bool(settings.tls_cert)
        _log.info("Serving", address=server.address, health=health.url, tls=tls)
        if not tls and not is_loopback(settings.host):
            _log.warning("Anyone who can reach this address can do anything: it has no TLS")
        waits = [
            asyncio.create_task(process.stopping.wait(), name="wait for the stop"),
            asyncio.create_task(server.wait(), name="follow etcd"),
            asyncio.create_task(server.core.compactor.run(), name="compact etcd"),
            asyncio.create_task(server.core.etcd.run(server.set_serving), name="monitor etcd"),
        ]
        done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()
    finally:
        await server.stop()
        await health.stop()
        await store.close()
