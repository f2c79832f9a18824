"""Whatever is sent to Kubernetes' REST API, it answers, lives on, and stores nothing that harms."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings
from hypothesis import strategies as st

from support.fuzz_http import HttpFuzzer
from support.fuzz_world import fuzz_world

pytestmark = pytest.mark.fuzz

_EXAMPLE = 100

sequences = st.lists(st.integers(0, 2**40), min_size=_EXAMPLE, max_size=_EXAMPLE)


async def _attack(sequence: list[int]) -> Counter[str]:
    async with fuzz_world() as world:
        for seed in sequence:
            if seed % 8 == 0:
                await world.send_rudely(HttpFuzzer(seed).rude())
            else:
                await world.send_http(HttpFuzzer(seed).request())
    for finding in world.findings:
        note(finding)
    assert not world.findings
    return world.codes


def test_a_good_part_of_the_http_requests_gets_past_the_first_check() -> None:
    """Of requests that are always the same: of random ones it is a matter of chance."""
    rng = random.Random(1)
    codes = asyncio.run(_attack([rng.randrange(2**40) for _ in range(_EXAMPLE)]))
    done = sum(count for code, count in codes.items() if code.startswith("2"))
    assert done > codes.total() / 20, codes


def test_no_http_request_harms_the_server_or_a_reader_of_what_it_stores(requests: int) -> None:
    @settings(
        max_examples=max(1, requests // 2 // _EXAMPLE - 1),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(sequences)
    def attack(sequence: list[int]) -> None:
        assume(len(set(sequence)) > 1)  # as the first example, the simplest one, has it
        asyncio.run(_attack(sequence))

    attack()
