"""/debug/pprof/goroutine and /debug/flags/v: stacks of tasks and threads, and the log verbosity.

asyncio's tasks and the threads take the place of goroutines. No tool shows tasks from outside the
process: py-spy shows only threads.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from aiohttp import web

from podsched.telemetry.log_output import set_verbosity
from podsched.telemetry.logs import MAX_VERBOSITY, get_logger

_log = get_logger("health")

#: Max tasks and threads that are listed, and max calls of each. A leader has some hundred tasks.
_MOST, _MOST_CALLS = 10_000, 128
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def show_stacks(request: web.Request) -> web.StreamResponse:
    """Handle GET: answer with the stacks of all tasks and threads.

    Equal stacks are shown once with their number or, with ``debug=2``, each with its name.
    """
    each = request.query.get("debug", "1") == "2"
    return web.Response(text=stacks_text(each=each), headers=_HEADERS)


async def change_verbosity(request: web.Request) -> web.StreamResponse:
    """Handle PUT: change the log verbosity. Raises HTTPBadRequest for an invalid number."""
    text = (await request.content.read(16)).decode(errors="replace").strip()
    if not text.isdecimal() or int(text) > MAX_VERBOSITY:
        reason = f"verbosity must be a number of at most {MAX_VERBOSITY}\n"
        raise web.HTTPBadRequest(text=reason)
    set_verbosity(int(text))
    _log.info("Changed the verbosity", verbosity=int(text))
    return web.Response(text=f"successfully set klog.logging.verbosity to {text}")


def stacks_text(*, each: bool) -> str:
    """Return the stacks as text: those of equal tasks together, or each with its name."""
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
        yield f"thread {names.get(ident, ident)}", _lines(_callers(frame))
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[: max(0, _MOST - len(running))]:
        frames = list(_awaited(task.get_coro()))
        yield f"task {task.get_name()}", _lines(reversed(frames))


def _lines(frames: Iterable[FrameType]) -> str:
    # Compiled functions have no lines.
    return "".join(
        f"#\t{f.f_code.co_qualname}\t{f.f_code.co_filename}:{f.f_lineno or 0}\n" for f in frames
    )


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that it was called from."""
    for _ in range(_MOST_CALLS):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _awaited(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frame of a coroutine and of those that it awaits, the outermost first."""
    for _ in range(_MOST_CALLS):
        kind = next((k for k in ("cr", "gi", "ag") if hasattr(coroutine, f"{k}_frame")), None)
        if kind is None or (frame := getattr(coroutine, f"{kind}_frame")) is None:
            return
        yield frame
        coroutine = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
