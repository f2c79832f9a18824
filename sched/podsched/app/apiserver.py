"""The API server process."""

from __future__ import annotations

from podsched.app.process import Process
from podsched.lib.network import is_loopback
from podsched.lib.tasks import TaskSet
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
    tasks = TaskSet("API server")
    try:
        await server.start()
        tls = bool(settings.tls_cert)
        _log.info("Serving", address=server.address, health=health.url, tls=tls)
        if not tls and not is_loopback(settings.host):
            _log.warning("Anyone who can reach this address can do anything: it has no TLS")
        tasks.start(server.wait(), "follow etcd", endless=True)
        tasks.start(store.wait(), "write to etcd", endless=True)
        # Returns at once where etcd compacts itself.
        tasks.start(server.core.compactor.run(), "compact etcd")
        tasks.start(server.core.etcd.run(server.set_serving), "monitor etcd", endless=True)
        tasks.start(_end_when_asked(process, tasks), "wait for the stop")
        await tasks.run()
    finally:
        await server.stop()
        await health.stop()
        await store.close()


async def _end_when_asked(process: Process, tasks: TaskSet) -> None:
    await process.stopping.wait()
    tasks.end()
