"""Whatever is sent to the API server, it answers, lives on, and stores nothing that harms a reader.

Hypothesis chooses sequences of methods and seeds; the requests follow from them along the
descriptors of the API. Each sequence has a world of its own, so that what fails can be repeated and
made smaller.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st

from podsched.v1 import api_pb2 as v1
from podsched.v1 import scheduling_pb2
from support.fuzz_requests import METHODS, SEEDS, Fuzzer
from support.fuzz_world import fuzz_world

pytestmark = pytest.mark.fuzz

#: Requests to one world: few of many, so that what fails is found and made smaller soon. A long run
#: is faster with more, because making a world, showing and deleting what is left takes as long as
#: a hundred requests.
_EXAMPLE, _LONG_EXAMPLE = 100, 500
_LONG_RUN = 5000
#: Growth of the process from the second fifth of the requests on; caches of texts fill up slowly.
_MOST_GROWTH = 200 << 20

call = st.tuples(st.sampled_from(sorted(METHODS)), st.integers(0, 2**40))


def _memory() -> int:
    """Bytes of this process in memory: server, leader, agent and fuzzer."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def _attack(sequence: list[tuple[str, int]]) -> Counter[str]:
    async with fuzz_world() as world:
        for method, seed in sequence:
            await world.send(Fuzzer(seed, world.term).request(method))
    for finding in world.findings:
        note(finding)
    assert not world.findings
    return world.codes


def test_a_good_part_of_the_requests_gets_past_the_first_check() -> None:
    """Of requests that are always the same: of random ones it is a matter of chance."""
    rng, methods = random.Random(1), sorted(METHODS)
    codes = asyncio.run(
        _attack([(rng.choice(methods), rng.randrange(2**40)) for _ in range(_EXAMPLE)])
    )
    assert codes["OK"] > codes.total() / 10, codes


def test_no_request_harms_the_server_or_a_reader_of_what_it_stores(requests: int) -> None:
    sizes: list[int] = []
    length = _EXAMPLE if requests < _LONG_RUN else _LONG_EXAMPLE

    @settings(
        max_examples=max(1, requests // length - 1),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(call, min_size=length, max_size=length))
    def attack(sequence: list[tuple[str, int]]) -> None:
        assume(len(set(sequence)) > 1)  # as the first example, the simplest one, has it
        asyncio.run(_attack(sequence))
        sizes.append(_memory())

    attack()
    growth = sizes[-1] - sizes[len(sizes) // 5]
    assert growth < _MOST_GROWTH, f"{growth >> 20} MB more after {requests} requests"


def test_every_kind_and_every_method_is_attacked() -> None:
    assert {seed.DESCRIPTOR.name for seed in SEEDS} == {
        field.message_type.name for field in v1.Object.DESCRIPTOR.fields
    }
    services = [
        service
        for file in (v1.DESCRIPTOR, scheduling_pb2.DESCRIPTOR)
        for service in file.services_by_name.values()
    ]
    methods = {method.name for service in services for method in service.methods}
    assert {method.name for method in METHODS.values()} == methods
