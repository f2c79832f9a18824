"""CPU profiles; the timer counts the CPU time that the tests use."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Callable

import pytest

from podsched.telemetry.profiling.cpu import AlreadyProfiling, CpuProfiler
from podsched.v1.pprof_pb2 import Profile

_USED = 100_000_000


def profile_of(work: Callable[[], None]) -> Profile:
    """A profile of some work, done until there are samples: the kernel's timer is not precise."""
    profile = Profile()
    for _ in range(50):
        profiler = CpuProfiler()
        profiler.start()
        try:
            work()
        finally:
            content = profiler.stop()
        profile = Profile.FromString(gzip.decompress(content))
        if profile.sample:
            break
    return profile


def stacks(profile: Profile) -> dict[tuple[str, ...], int]:
    """The CPU time of each stack, the innermost function first."""
    names = {f.id: profile.string_table[f.name] for f in profile.function}
    functions = {at.id: names[at.line[0].function_id] for at in profile.location}
    return {
        tuple(functions[at] for at in sample.location_id): sample.value[1]
        for sample in profile.sample
    }


def spin() -> None:
    end = time.process_time_ns() + _USED
    while time.process_time_ns() < end:
        sum(range(100))


def test_time_counts_for_the_function_that_uses_it() -> None:
    profile = profile_of(spin)
    found = stacks(profile)
    here = sum(cpu for stack, cpu in found.items() if "spin" in stack)
    assert here > sum(found.values()) * 0.5 > 0
    types = [profile.string_table[of.type] for of in profile.sample_type]
    assert types == ["samples", "cpu"]
    assert profile.string_table[0] == ""
    assert (profile.period, profile.duration_nanos > 0) == (10_000_000, True)


def test_time_that_others_use_while_the_loop_waits_is_theirs() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().run_in_executor(None, threads_spin)

    def threads_spin() -> None:
        worker = threading.Thread(target=spin)
        worker.start()
        worker.join()

    found = stacks(profile_of(lambda: asyncio.run(wait())))
    assert sum(found.values()) > 0
    assert found.get(("(other threads)",), 0) > sum(found.values()) * 0.5


def test_there_is_one_profile_at_a_time() -> None:
    first = CpuProfiler()
    first.start()
    try:
        with pytest.raises(AlreadyProfiling):
            CpuProfiler().start()
    finally:
        first.stop()
    CpuProfiler().start()
    first.stop()
