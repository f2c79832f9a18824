"""How often a server is asked by an informer whose watches end. Virtual time."""

from __future__ import annotations

import asyncio

import pytest

from podsched.serve.client.errors import ClientError, Compacted, Unavailable
from podsched.serve.client.informer import Informer
from support.scripted_watches import Ending

pytestmark = pytest.mark.looptime


async def asked_within(seconds: float, source: Ending) -> int:
    informer = Informer(source, ["Pod"])
    following = asyncio.create_task(informer.run(lambda batch: None))
    await asyncio.sleep(seconds)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return source.asked


@pytest.mark.parametrize("end", [Unavailable("ended"), Compacted("too old")], ids=str)
async def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often(
    end: ClientError,
) -> None:
    assert await asked_within(60, Ending(end)) < 60


@pytest.mark.parametrize("end", [Unavailable("ended"), Compacted("too old")], ids=str)
async def test_a_watch_that_has_lasted_is_begun_again_soon(end: ClientError) -> None:
    assert await asked_within(301, Ending(end, lasting=30.0)) == 11
