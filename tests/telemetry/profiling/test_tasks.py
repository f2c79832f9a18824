"""Tasks and threads."""

from __future__ import annotations

import asyncio
import gzip
from types import FrameType, SimpleNamespace
from typing import cast

from podsched.telemetry.profiling.profile import Call, call_of
from podsched.telemetry.profiling.tasks import tasks_profile, tasks_text
from podsched.v1.pprof_pb2 import Profile


async def outer(event: asyncio.Event) -> None:
    await inner(event)


async def inner(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_compiled_frame_has_no_line() -> None:
    frame = SimpleNamespace(
        f_code=SimpleNamespace(co_qualname="f", co_filename="f.pyx", co_firstlineno=1),
        f_lineno=None,
    )
    assert call_of(cast(FrameType, frame)) == Call("f", "f.pyx", 1, 0)


async def test_a_task_shows_all_that_it_awaits_and_a_thread_its_stack() -> None:
    event = asyncio.Event()
    tasks = [asyncio.create_task(outer(event), name=name) for name in ("one", "two")]
    await asyncio.sleep(0)
    try:
        each = tasks_text(each=True)
        profile = Profile.FromString(gzip.decompress(tasks_profile()))
        together = tasks_text(each=False)
    finally:
        event.set()
        await asyncio.gather(*tasks)
    lines = each.splitlines()
    at = lines.index("task one:")
    functions = [line.split("\t")[1] for line in lines[at + 1 : at + 4]]
    assert functions == ["Event.wait", "inner", "outer"]
    assert "thread MainThread:" in lines
    assert "2 @" in together.splitlines()
    assert 2 in [sample.value[0] for sample in profile.sample]
