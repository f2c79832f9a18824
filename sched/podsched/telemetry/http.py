"""The HTTP server of a process for /healthz, /livez, /readyz, /metrics, /statusz and /configz.

With TLS and authorities of clients, only the probes answer those without a certificate, as in
kube-scheduler; without TLS it asks nobody, and so listens on loopback by default. It rejects all
methods except GET and HEAD.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from podsched.lib.tls_contexts import ServingContext, TlsFiles
from podsched.telemetry.health import Answer, HealthChecks, Probe
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import HealthMetrics
from podsched.telemetry.statusz import Component, status_text

_log = get_logger("health")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Returns the effective configuration as plain data without secrets.
ConfigSource = Callable[[], Mapping[str, Any]]

_SHUTDOWN_SECONDS = 2.0
_NO_CACHE = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}


class HealthServerError(Exception):
    """The health server cannot listen on the host and port chosen by the user."""


class HealthServer:
    """A running server, listening on ``host`` and ``port``."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, scheme: str) -> None:
        self._runner = runner
        self._scheme = scheme
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.port}"

    async def stop(self) -> None:
        """Stop listening and close all connections; requests in progress get two seconds."""
        await self._runner.cleanup()


async def serve_health(
    checks: HealthChecks,
    registry: MetricRegistry,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    component: Component | None = None,
    config: ConfigSource | None = None,
    extra_routes: Mapping[str, Handler] | None = None,
    tls: TlsFiles | None = None,
) -> HealthServer:
    """Start the server; port 0 picks a free one.

    ``component`` names the process at /statusz; ``config`` is served at /configz; ``extra_routes``
    maps additional paths to GET handlers.
    Raises ``HealthServerError`` if the address cannot be used, ``CertificateError`` for the files.
    """
    secured = ServingContext(tls, _keep).context if tls else None
    demanding = tls is not None and bool(tls.authorities)
    app = web.Application(middlewares=[_certificate_demanded] if demanding else [])
    for probe in Probe:
        app.router.add_get(f"/{probe}", _probe_handler(checks, probe))
        app.router.add_get(f"/{probe}/{{name}}", _check_handler(checks, probe))
    app.router.add_get("/metrics", _metrics_handler(registry))
    slis = MetricRegistry()
    checks.ran = HealthMetrics(slis).ran
    app.router.add_get("/metrics/slis", _metrics_handler(slis))
    app.router.add_get("/statusz", _status_handler(component or Component(), time.time()))
    if config is not None:
        app.router.add_get("/configz", _config_handler(config))
    for path, handler in (extra_routes or {}).items():
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=secured).start()
    except OSError as error:
        await runner.cleanup()
        reason = error.strerror or str(error)
        raise HealthServerError(f"cannot serve health on {host}:{port}: {reason}") from error
    return HealthServer(runner, host, runner.addresses[0][1], "https" if secured else "http")


def _keep(problem: str) -> None:
    _log.warning("Keeping the certificates in use", error=problem)


@web.middleware
async def _certificate_demanded(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 401 to those without a certificate, except to probes, which kubelets send so."""
    probe = request.path.split("/")[1] in frozenset(Probe)
    certificate = request.transport and request.transport.get_extra_info("peercert")
    if probe or certificate:
        return await handler(request)
    return web.Response(status=401, text="Unauthorized: no client certificate\n", headers=_NO_CACHE)


def _probe_handler(checks: HealthChecks, probe: Probe) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        exclude = [
            name for value in request.query.getall("exclude", []) for name in value.split(",")
        ]
        return _respond(checks.answer(probe, verbose="verbose" in request.query, exclude=exclude))

    return handle


def _check_handler(checks: HealthChecks, probe: Probe) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        answer = checks.answer_one(probe, request.match_info["name"])
        if answer is None:
            return web.Response(status=404, text="404 page not found\n", headers=_NO_CACHE)
        return _respond(answer)

    return handle


def _metrics_handler(registry: MetricRegistry) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        text, content_type = registry.render(request.headers.get("Accept", ""))
        return web.Response(body=text, headers={"Content-Type": content_type})

    return handle


def _status_handler(component: Component, started: float) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        paths = {route.canonical for route in request.app.router.resources()}
        text = status_text(component, started, time.time(), list(paths))
        return web.Response(text=text, headers=_NO_CACHE)

    return handle


def _config_handler(config: ConfigSource) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        text = json.dumps(config(), indent=2, default=str)
        return web.Response(text=text + "\n", content_type="application/json", headers=_NO_CACHE)

    return handle


def _respond(answer: Answer) -> web.Response:
    return web.Response(status=200 if answer.ok else 500, text=answer.text, headers=_NO_CACHE)
