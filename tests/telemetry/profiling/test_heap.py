"""Heap profiles."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc

import pytest

from podsched.telemetry.profiling.heap import AlreadyTracing, heap_profile
from podsched.v1.pprof_pb2 import Profile


async def test_what_is_allocated_meanwhile_and_kept_is_in_it() -> None:
    kept: list[bytearray] = []
    asyncio.get_running_loop().call_soon(lambda: kept.append(bytearray(3_000_000)))
    profile = Profile.FromString(gzip.decompress(await heap_profile(0.01)))
    largest = max(profile.sample, key=lambda sample: sample.value[1])
    assert largest.value[1] >= len(kept[0])
    lines = {at.id: profile.function[at.line[0].function_id - 1] for at in profile.location}
    innermost = profile.string_table[lines[largest.location_id[0]].name]
    assert innermost.startswith("profiling/test_heap.py:")
    assert profile.string_table[profile.default_sample_type] == "inuse_space"
    assert not tracemalloc.is_tracing()


async def test_there_is_one_profile_at_a_time() -> None:
    first = asyncio.create_task(heap_profile(0.01))
    await asyncio.sleep(0)
    with pytest.raises(AlreadyTracing):
        await heap_profile(0.01)
    await first


async def test_a_process_that_traces_anyway_answers_at_once() -> None:
    tracemalloc.start(2)
    try:
        assert await heap_profile(300)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
