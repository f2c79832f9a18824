"""Reads wait until the cache shows what was written before them."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.etcd_keys import SYNC
from podsched.serve.store.protocol import Put
from support.api_world import World


@pytest.mark.looptime
async def test_reads_that_wait_together_for_others_keys_make_one_write(world: World) -> None:
    """What others write to the same etcd raises its revision, and no watch tells it."""
    reflector = world.core.reflector
    for _ in range(2):
        await world.store.txn([], [Put("/others/key", b"")])
        await asyncio.gather(*(reflector.wait_until_fresh() for _ in range(50)))
    kv = (await world.store.get(SYNC)).kv
    assert kv is not None and kv.version == 2
