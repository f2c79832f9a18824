"""Run a podsched process: logs, metrics, traces, health checks, signals and exit codes."""

from __future__ import annotations

import asyncio
import platform
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podsched import __version__
from podsched.ask.web.feed import Feed
from podsched.ask.web.server import PageServices, serve_page
from podsched.ask.web.sources import ReadLeadership, Source
from podsched.config.feature_gates import VERSION, in_effect, stage
from podsched.config.settings import TelemetrySettings
from podsched.lib.event_loop import watch_lag
from podsched.lib.listening import raise_file_limit
from podsched.lib.memory import freeze_survivors, keep_freed_memory
from podsched.lib.tasks import TaskSet
from podsched.lib.tls_contexts import TlsFiles
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.http import Access, Component, Handler, Pages, serve_health
from podsched.telemetry.http_server import HttpServer
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.log_output import configure_logging
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import BuildMetrics, ProcessMetrics, RegistryMetrics
from podsched.telemetry.tracing import Tracer, configure_tracing

_log = get_logger("process")


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """Options of every process.

    ``instance`` distinguishes processes of one kind in traces: the unique identity of a replica.
    """

    name: str
    instance: str = ""
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    health_tls: TlsFiles | None = None
    """Certificate of the health server, and the authorities of its clients."""
    health_demands_certificates: bool = False
    """Whether the health server demands client certificates even if it knows no authority."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Options in effect, for /flagz."""
    web_listen: tuple[str, int] | None = None
    """Host and port of the page; None: there is none. It has the health server's TLS."""


@dataclass(slots=True)
class Process:
    """The running process, passed to its main coroutine."""

    options: ProcessOptions
    registry: MetricRegistry
    checks: HealthChecks
    tracer: Tracer
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int = 0

    def stop(self, exit_code: int = 0) -> None:
        """Request the end of the process."""
        self.exit_code = self.exit_code or exit_code
        self.stopping.set()

    def asked_to_stop(self) -> None:
        """Request the end of the process because of a signal.

        In a process that has joined Ray, Ray's library handles SIGTERM first. It treats SIGTERM as
        a failure, and sets an alarm that aborts the process 3 s later (absl's failure signal
        handler); this cancels the alarm.
        """
        signal.alarm(0)
        self.stopping.set()

    async def end_when_asked(self, tasks: TaskSet) -> None:
        """End a set of tasks once the process is asked to stop."""
        await self.stopping.wait()
        tasks.end()

    async def serve_health(
        self,
        config: Callable[[], Any] | None = None,
        routes: Mapping[str, Handler] | None = None,
        *,
        profiling: bool = False,
        metrics: Handler | None = None,
    ) -> HttpServer:
        """Serve health, metrics and, if given, the configuration and more routes.

        ``metrics``: the handler of /metrics in place of the registry.
        """
        options, telemetry = self.options, self.options.telemetry
        component = Component(f"podsched-{options.name}", __version__)
        return await serve_health(
            self.checks,
            self.registry,
            telemetry.health_host,
            telemetry.health_port,
            pages=Pages(component, options.flags, config, routes or {}, profiling, metrics),
            access=Access(
                options.health_tls, options.health_demands_certificates, telemetry.open_paths
            ),
        )

    async def serve_page(
        self,
        tasks: TaskSet,
        source: Source,
        read_leadership: ReadLeadership,
        services: PageServices,
    ) -> HttpServer | None:
        """Serve the page if enabled. Raises HttpServerError, CertificateError."""
        options = self.options
        if options.web_listen is None:
            return None
        about = {
            "name": options.name,
            "instance": options.instance,
            "host": socket.gethostname(),
            "version": __version__,
            "acts": services.api is not None,
        }
        feed = Feed(source, read_leadership, lambda: about)
        host, port = options.web_listen
        server = await serve_page(
            feed,
            source,
            host,
            port,
            services=services,
            tls=options.health_tls,
            demanding=options.health_demands_certificates,
        )
        tasks.start(feed.run(), "page", endless=True)
        _log.info("The page is served", address=f"{server.url}/")
        return server


def run_process(options: ProcessOptions, main: Callable[[Process], Awaitable[None]]) -> int:
    """Run ``main`` until it returns; SIGTERM and SIGINT set ``process.stopping``.

    Returns the exit code, which is 0 after a requested stop.
    """
    telemetry = options.telemetry
    # Other threads (decision log, connections) keep the interpreter for at most 1 ms, not for the
    # default of 5 ms, while the event loop waits for it.
    sys.setswitchinterval(0.001)
    keep_freed_memory()
    freeze_survivors()
    raise_file_limit()
    configure_logging(telemetry.log_format, telemetry.log_level, modules=telemetry.log_modules)

    async def run() -> int:
        registry = MetricRegistry(telemetry.disabled_metrics)
        registry.add_process_metrics()
        _tell_build(registry, telemetry.feature_gates)
        tracer = configure_tracing(
            f"podsched-{options.name}",
            telemetry.otlp_endpoint or None,
            telemetry.trace_sample_ratio,
            options.instance,
        )
        process = Process(options, registry, HealthChecks(), tracer)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.asked_to_stop)
        tasks = TaskSet("the process")
        metrics = ProcessMetrics(registry)
        registry.before_collect(
            lambda: metrics.goroutines.set(len(asyncio.all_tasks(loop)) + threading.active_count())
        )
        tasks.start(watch_lag(metrics.late), "watch the lag")
        try:
            await main(process)
        finally:
            await tasks.stop()
            tracer.shutdown()
        return process.exit_code

    return asyncio.run(run())


def _tell_build(registry: MetricRegistry, gates: Mapping[str, bool]) -> None:
    build = BuildMetrics(registry)
    build.build_info.labels(__version__, platform.python_version(), VERSION).set(1)
    for name, enabled in in_effect(gates).items():
        build.feature_enabled.labels(name, stage(name)).set(float(enabled))
    metrics = RegistryMetrics(registry)
    registry.before_collect(lambda: metrics.count(registry))
