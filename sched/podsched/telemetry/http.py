"""The HTTP server of a process: health, metrics, /statusz, /flagz, /configz and /debug.

With TLS and client authorities, clients without a certificate reach only the probes and the paths
that are declared open, as in kube-scheduler. Without TLS clients are not authenticated, so it
listens on loopback by default. It allows only GET and HEAD, and PUT of /debug/flags/v.
"""

from __future__ import annotations

import asyncio
import json
import math
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from traceback import walk_stack
from types import FrameType
from typing import Any, NamedTuple

from aiohttp import web

from podsched.lib.event_loop import Turn
from podsched.lib.printable import printable_line
from podsched.lib.tls_contexts import TlsFiles
from podsched.telemetry.health import Answer, HealthChecks, Probe
from podsched.telemetry.http_server import HttpServer, serve_application
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.log_output import set_verbosity
from podsched.telemetry.logs import MAX_VERBOSITY, get_logger
from podsched.telemetry.metrics import HealthMetrics

_log = get_logger("health")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Returns the effective configuration as plain data without secrets.
ConfigSource = Callable[[], Mapping[str, Any]]

_SHUTDOWN_SECONDS = 2.0
#: Seconds for the body of a request.
_BODY_SECONDS = 10.0
_NO_CACHE = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
#: Max tasks and threads that are listed, and max calls of each. A leader has some hundred tasks.
_MOST, _MOST_CALLS = 10_000, 128


@dataclass(frozen=True, slots=True)
class Access:
    """Which clients may read which paths."""

    tls: TlsFiles | None = None
    """Certificate of the server and authorities of its clients; None: plain HTTP."""
    demanding: bool = False
    """Whether to require client certificates even without authorities, so that none is accepted."""
    open_paths: Collection[str] = ()
    """Paths, besides the probes, that need no certificate; * at the end matches all paths below."""


@dataclass(frozen=True, slots=True)
class Component:
    """The name and version of the process, for /statusz and /flagz."""

    name: str = "podsched"
    version: str = ""


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages besides health and metrics."""

    component: Component = field(default_factory=Component)
    """Names the process at /statusz."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Options in effect, for /flagz."""
    config: ConfigSource | None = None
    """Served at /configz."""
    routes: Mapping[str, Handler] = field(default_factory=dict)
    """GET handlers of more paths."""
    profiling: bool = False
    """Whether to serve /debug/pprof/goroutine and to let clients PUT /debug/flags/v."""
    metrics: Handler | None = None
    """Handler of /metrics that replaces the registry's text."""


def text_page(text: Callable[[], Awaitable[str]]) -> Handler:
    """Return a handler that answers with a text."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(text=await text(), headers=_NO_CACHE)

    return handle


async def serve_health(
    checks: HealthChecks,
    registry: MetricRegistry,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    pages: Pages | None = None,
    access: Access | None = None,
) -> HttpServer:
    """Start the server; port 0 picks a free one.

    Raises ``HttpServerError`` if the address cannot be used, ``CertificateError`` for the files.
    """
    access = access or Access()
    demanding = access.tls is not None and (access.demanding or bool(access.tls.authorities))
    app = web.Application(middlewares=[_certificate_demanded(access)] if demanding else [])
    _add_routes(app.router, checks, registry, pages or Pages())
    return await serve_application(
        app, host, port, access.tls, _log, what="health", shutdown_seconds=_SHUTDOWN_SECONDS
    )


def _add_routes(
    router: web.UrlDispatcher, checks: HealthChecks, registry: MetricRegistry, pages: Pages
) -> None:
    for probe in Probe:
        router.add_get(f"/{probe}", _probe_handler(checks, probe))
        router.add_get(f"/{probe}/{{name}}", _check_handler(checks, probe))
    router.add_get("/metrics", pages.metrics or metrics_page(registry))
    slis = MetricRegistry()
    checks.ran = HealthMetrics(slis).ran
    router.add_get("/metrics/slis", metrics_page(slis))
    router.add_get("/statusz", _status_handler(pages.component, time.time()))
    flags = flags_text(pages.component, pages.flags)
    router.add_get("/flagz", _page(lambda _: flags))
    if (config := pages.config) is not None:
        router.add_get("/configz", _page(lambda _: config_text(config), "application/json"))
    for path, handler in pages.routes.items():
        router.add_get(path, handler)
    if pages.profiling:
        stacks = _page(lambda request: stacks_text(each=request.query.get("debug") == "2"))
        router.add_get("/debug/pprof/goroutine", stacks)
        router.add_put("/debug/flags/v", change_verbosity)


def _certificate_demanded(access: Access) -> Any:
    """Return a middleware that answers 401 to clients without a certificate, except on open paths.

    Probes are open, because kubelets send them without a certificate.
    """
    exact = {path for path in access.open_paths if not path.endswith("*")}
    prefixes = tuple(path[:-1] for path in access.open_paths if path.endswith("*"))
    reason = "Unauthorized: no client certificate\n"
    if access.tls is not None and not access.tls.authorities:
        reason = "Unauthorized: there is no --client-ca-file to verify a client certificate with\n"

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        path = request.path
        # Some requests have no path, such as "OPTIONS *".
        probe = path.removeprefix("/").partition("/")[0] in frozenset(Probe)
        certificate = request.transport and request.transport.get_extra_info("peercert")
        if probe or certificate or path in exact or (prefixes and path.startswith(prefixes)):
            return await handler(request)
        return web.Response(status=401, text=reason, headers=_NO_CACHE)

    return answer


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


def metrics_page(registry: MetricRegistry) -> Handler:
    """Return the handler. It makes one text at a time, for all who ask for it until it begins.

    The texts for 200 clients at once held up the event loop for 0.3 s.
    """
    making, made = asyncio.Lock(), _Text()

    async def handle(request: web.Request) -> web.Response:
        nonlocal made
        clock = asyncio.get_running_loop().time
        accept, asked_at = request.headers.get("Accept", ""), clock()
        async with making:
            if made.accept != accept or made.began_at < asked_at:
                began_at = clock()
                made = _Text(accept, began_at, *await _text_of(registry, accept))
            text = made
        return web.Response(body=text.body, headers={"Content-Type": text.content_type})

    return handle


class _Text(NamedTuple):
    """The text of metrics, for an Accept header; ``began_at``: when making it began."""

    accept: str = ""
    began_at: float = -math.inf
    content_type: str = ""
    body: bytes = b""


async def _text_of(registry: MetricRegistry, accept: str) -> tuple[str, bytes]:
    """Return the content type and the text of the metrics as of now."""
    content_type, parts = registry.parts(accept)
    text, turn = bytearray(), Turn()
    await turn.wait()
    for part in parts:
        text += part
        if turn.is_over:
            await turn.give_way()
    return content_type, bytes(text)


def _status_handler(component: Component, started: float) -> Handler:
    def text(request: web.Request) -> str:
        paths = {route.canonical for route in request.app.router.resources()}
        return status_text(component, started, time.time(), paths)

    return _page(text)


def _page(text: Callable[[web.Request], str], content_type: str = "text/plain") -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=text(request), content_type=content_type, headers=_NO_CACHE)

    return handle


def _respond(answer: Answer) -> web.Response:
    return web.Response(status=200 if answer.ok else 500, text=answer.text, headers=_NO_CACHE)


_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)


def status_text(component: Component, started: float, now: float, paths: Iterable[str]) -> str:
    """Return the text of /statusz; ``started`` and ``now`` are seconds since 1970."""
    up = max(0, int(now - started))
    began = time.strftime("%a %b %e %H:%M:%S UTC %Y", time.gmtime(started))
    return "\n".join(
        (
            "",
            f"{component.name} statusz",
            _WARNING,
            "",
            f"Started: {began}",
            f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {component.version}",
            f"Paths: {' '.join(sorted(paths))}",
            "",
        )
    )


def config_text(config: ConfigSource) -> str:
    """Return the text of /configz, in Kubernetes' format."""
    return json.dumps({"componentconfig": config()}, indent=2, default=str) + "\n"


def flags_text(component: Component, flags: Mapping[str, str]) -> str:
    """Return the text of /flagz: the options in effect, by name."""
    lines = (printable_line(f"{name}={value}") for name, value in sorted(flags.items()))
    return "\n".join(("", f"{component.name} flags", _WARNING, "", *lines, ""))


async def change_verbosity(request: web.Request) -> web.StreamResponse:
    """Handle PUT: change the log verbosity. Raises HTTPBadRequest for an invalid number."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            text = (await request.content.read(16)).decode(errors="replace").strip()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    if not text.isdecimal() or int(text) > MAX_VERBOSITY:
        raise web.HTTPBadRequest(text=f"verbosity must be a number of at most {MAX_VERBOSITY}\n")
    set_verbosity(int(text))
    _log.info("Changed the verbosity", verbosity=int(text))
    return web.Response(text=f"successfully set klog.logging.verbosity to {text}")


def stacks_text(*, each: bool) -> str:
    """Return the stacks of all tasks and threads: equal ones once with their number, or each.

    No tool shows tasks from outside the process: py-spy shows only threads.
    """
    if each:
        return "\n".join(f"{name}:\n{stack}" for name, stack in _stacks())
    counts = Counter(stack for _, stack in _stacks())
    blocks = [f"{count} @\n{stack}" for stack, count in counts.most_common()]
    return "\n".join((f"tasks and threads: total {counts.total()}", *blocks))


def _stacks() -> Iterator[tuple[str, str]]:
    """Yield the name and the stack of each thread and task, the innermost call first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    running = sys._current_frames()
    for ident, frame in running.items():
        callers = (frame for frame, _ in islice(walk_stack(frame), _MOST_CALLS))
        yield f"thread {names.get(ident, ident)}", _lines(callers)
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[: max(0, _MOST - len(running))]:
        frames = list(_awaited(task.get_coro()))
        yield f"task {task.get_name()}", _lines(reversed(frames))


def _lines(frames: Iterable[FrameType]) -> str:
    # Compiled functions have no lines.
    return "".join(
        f"#\t{f.f_code.co_qualname}\t{f.f_code.co_filename}:{f.f_lineno or 0}\n" for f in frames
    )


def _awaited(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frame of a coroutine and of those that it awaits, the outermost first."""
    for _ in range(_MOST_CALLS):
        kind = next((k for k in ("cr", "gi", "ag") if hasattr(coroutine, f"{k}_frame")), None)
        if kind is None or (frame := getattr(coroutine, f"{kind}_frame")) is None:
            return
        yield frame
        coroutine = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
