"""What the tasks and threads of a process wait for or do: Python's goroutines."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from podsched.telemetry.profiling.profile import (
    MAX_DEPTH,
    Stack,
    ValueType,
    call_of,
    encode,
    stack_of,
)

_TYPES = (ValueType("goroutine", "count"),)
#: Tasks and threads that are listed; a leader has some hundred.
_MOST = 10_000


def tasks_profile() -> bytes:
    """Return how many tasks and threads have each stack, as a profile."""
    counts = Counter(stack for _, stack in _all())
    return encode(_TYPES, {stack: (count,) for stack, count in counts.items()}, began=time.time())


def tasks_text(*, each: bool) -> str:
    """Return the stacks as text: those of equal tasks together, or each with its name."""
    if each:
        blocks = [f"{name}:\n{_lines(stack)}" for name, stack in _all()]
        return "\n".join(blocks)
    counts = Counter(stack for _, stack in _all())
    blocks = [f"{count} @\n{_lines(stack)}" for stack, count in counts.most_common()]
    return "\n".join((f"tasks and threads: total {counts.total()}", *blocks))


def _lines(stack: Iterable[Any]) -> str:
    return "".join(f"#\t{call.function}\t{call.file}:{call.line}\n" for call in stack)


def _all() -> list[tuple[str, Stack]]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = [
        (f"thread {names.get(ident, ident)}", stack_of(frame))
        for ident, frame in sys._current_frames().items()
    ]
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        if len(found) >= _MOST:
            break
        frames = list(_awaiting(task.get_coro()))
        found.append((f"task {task.get_name()}", tuple(map(call_of, reversed(frames)))))
    return found


def _awaiting(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frame of a coroutine and of those that it awaits, the outermost first."""
    for _ in range(MAX_DEPTH):
        kind = next((k for k in ("cr", "gi", "ag") if hasattr(coroutine, f"{k}_frame")), None)
        if kind is None or (frame := getattr(coroutine, f"{kind}_frame")) is None:
            return
        yield frame
        coroutine = getattr(coroutine, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
