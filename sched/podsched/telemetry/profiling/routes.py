"""The handlers of /debug/pprof/ and /debug/flags/v, with Go's paths and parameters."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from podsched.telemetry.log_output import set_verbosity
from podsched.telemetry.logs import MAX_VERBOSITY, get_logger, masked
from podsched.telemetry.profiling.cpu import AlreadyProfiling, CpuProfiler
from podsched.telemetry.profiling.heap import AlreadyTracing, heap_profile
from podsched.telemetry.profiling.tasks import tasks_profile, tasks_text

_log = get_logger("profiling")

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Seconds of a profile: the most, Go's default of a CPU profile, and that of a heap profile.
_MOST, _CPU, _HEAP = 300.0, 30.0, 5.0
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_INDEX = """\
/debug/pprof/

goroutine  stacks of all tasks and threads; ?debug=1: as text, ?debug=2: each by name
heap       memory allocated during ?seconds=5 that is still in use
profile    CPU time during ?seconds=30
cmdline    the command line

Open a profile with: go tool pprof URL, or save it and open it at speedscope.app.
Python has no traces of execution (trace), no mutexes that tasks contend for (block, mutex), and
profiles that name their functions (symbol).
"""


async def _index(_: web.Request) -> web.Response:
    return web.Response(text=_INDEX, headers=_HEADERS)


async def _command_line(_: web.Request) -> web.Response:
    return web.Response(text="\0".join(map(masked, sys.argv)), headers=_HEADERS)


async def _cpu(request: web.Request) -> web.Response:
    seconds = _seconds(request, _CPU)
    profiler = CpuProfiler()
    try:
        profiler.start()
    except AlreadyProfiling as error:
        raise web.HTTPInternalServerError(text=f"Could not enable: {error}\n") from None
    try:
        await asyncio.sleep(seconds)
    finally:
        profile = profiler.stop()
    return _file(profile, "profile")


async def _heap(request: web.Request) -> web.Response:
    try:
        return _file(await heap_profile(_seconds(request, _HEAP)), "heap")
    except AlreadyTracing as error:
        raise web.HTTPInternalServerError(text=f"Could not enable: {error}\n") from None


async def _tasks(request: web.Request) -> web.Response:
    debug = request.query.get("debug", "0")
    if debug == "0":
        return _file(tasks_profile(), "goroutine")
    return web.Response(text=tasks_text(each=debug != "1"), headers=_HEADERS)


async def _verbosity(request: web.Request) -> web.Response:
    text = (await request.content.read(16)).decode(errors="replace").strip()
    if not text.isdecimal() or int(text) > MAX_VERBOSITY:
        reason = f"verbosity must be a number of at most {MAX_VERBOSITY}\n"
        raise web.HTTPBadRequest(text=reason)
    set_verbosity(int(text))
    _log.info("Changed the verbosity", verbosity=int(text))
    return web.Response(text=f"successfully set klog.logging.verbosity to {text}")


def _seconds(request: web.Request, default: float) -> float:
    try:
        seconds = float(request.query.get("seconds", default))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MOST:
        raise web.HTTPBadRequest(text=f"seconds must be above 0 and at most {_MOST:g}\n")
    return seconds


def _file(content: bytes, name: str) -> web.Response:
    disposition = f'attachment; filename="{name}"'
    headers = {**_HEADERS, "Content-Disposition": disposition}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)


GET: Mapping[str, _Handler] = {
    "/debug/pprof/": _index,
    "/debug/pprof/cmdline": _command_line,
    "/debug/pprof/profile": _cpu,
    "/debug/pprof/heap": _heap,
    "/debug/pprof/goroutine": _tasks,
}
PUT: Mapping[str, _Handler] = {"/debug/flags/v": _verbosity}
