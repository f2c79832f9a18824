"""How often one kind is asked for, by the ways in which its watches end. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import orjson
import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject
from podsched.serve.client.informer import EventType
from podsched.serve.kube.reflector import Reflector, WatchEvent

pytestmark = pytest.mark.looptime


class Proxy:
    """Lists nothing, and ends each watch after some seconds and an event, if it has one."""

    def __init__(self, lasting: float, *, with_news: bool = False) -> None:
        self.lasting = lasting
        self.with_news = with_news
        self.watches: list[float] = []

    async def request(self, method: str, path: str, *more: Any, **options: Any) -> Any:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    async def lines(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[list[bytes], None]:
        if "sendInitialEvents" in params:
            return
        self.watches.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if len(self.watches) > 5000:
            await asyncio.Event().wait()
        if self.with_news:
            metadata = {"resourceVersion": str(len(self.watches) + 1), "name": "n"}
            yield [orjson.dumps({"type": "MODIFIED", "object": {"metadata": metadata}})]
        await asyncio.sleep(self.lasting)


class Nowhere:
    """Keeps nothing."""

    async def listed(self, kind: str, objects: dict[str, AnyObject]) -> None:
        pass

    def changed(self, kind: str, events: Sequence[WatchEvent]) -> None:
        pass

    def unreadable(self, kind: str, key: str, type_: EventType) -> None:
        pass


async def watches_within(seconds: float, proxy: Proxy) -> int:
    reflector = Reflector(proxy, KINDS["Node"], Nowhere())
    following = asyncio.create_task(reflector.run())
    await asyncio.sleep(seconds)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return len(proxy.watches)


@pytest.mark.parametrize("with_news", [False, True])
async def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often(
    with_news: bool,
) -> None:
    assert await watches_within(60, Proxy(0.0, with_news=with_news)) < 20


@pytest.mark.parametrize("with_news", [False, True])
async def test_a_watch_that_has_lasted_is_begun_again_soon(with_news: bool) -> None:
    proxy = Proxy(30.0, with_news=with_news)
    assert await watches_within(301, proxy) == 11
