"""When the next stream of a watch is opened, and what ends it. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import pairwise

import pytest

from podsched.lib.backoff import Backoff
from podsched.lib.list_watch import HEALTHY, list_and_watch

pytestmark = pytest.mark.looptime

#: Waits double from 1 to 8 seconds, each as long as it can get.
FIRST, MOST = 1.0, 8.0


class Passing(Exception):
    """What is waited out."""


class Server:
    """Its streams yield what is given, last for some seconds, and end as they are told to."""

    def __init__(
        self, *items: str | None, lasting: float = 0.0, end: Exception | None = None
    ) -> None:
        self.items = items
        self.lasting = lasting
        self.end = end
        self.opened: list[float] = []
        self.open = 0
        self.told: list[Exception] = []
        #: What ``told`` returns, or raises.
        self.answer: float | Exception | None = None

    async def stream(self) -> AsyncGenerator[str | None, None]:
        self.opened.append(asyncio.get_running_loop().time())
        self.open += 1
        try:
            for item in self.items:
                yield item
            await asyncio.sleep(self.lasting)
            if self.end is not None:
                raise self.end
        finally:
            self.open -= 1

    def tell(self, error: Passing) -> float | None:
        self.told.append(error)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def watch(self) -> AsyncGenerator[str, None]:
        backoff = Backoff(FIRST, MOST, lambda: 1.0)
        return list_and_watch(self.stream, self.tell, transient=(Passing,), backoff=backoff)

    async def pauses(self, count: int) -> list[float]:
        """Return the seconds between the end of each of the first streams and the next."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout((self.lasting + MOST) * count):
                async for _ in self.watch():
                    pass
        found = [after - before - self.lasting for before, after in pairwise(self.opened)]
        return [round(pause, 3) for pause in found[:count]]


@pytest.mark.parametrize("end", [None, Passing("broke")], ids=["ended", "broke"])
@pytest.mark.parametrize("items", [(), (None,), ("news",)], ids=["nothing", "a sign", "news"])
async def test_a_stream_that_always_ends_at_once_is_opened_ever_less_often(
    items: tuple[str | None, ...], end: Exception | None
) -> None:
    server = Server(*items, lasting=HEALTHY / 2, end=end)
    assert await server.pauses(5) == [1, 2, 4, 8, 8], "whatever it brought"


@pytest.mark.parametrize(
    ("items", "end"),
    [((), None), ((None,), Passing("broke")), (("news",), Passing("broke"))],
    ids=["ended without a word", "broke after a sign", "broke after news"],
)
async def test_a_stream_that_has_lasted_begins_the_count_anew(
    items: tuple[str | None, ...], end: Exception | None
) -> None:
    assert await Server(*items, lasting=HEALTHY, end=end).pauses(3) == [1, 1, 1]


async def test_a_stream_that_breaks_without_a_sign_has_not_worked_however_long_it_took() -> None:
    assert await Server(lasting=30.0, end=Passing("no answer")).pauses(3) == [1, 2, 4]


async def test_each_error_is_told_once_and_may_ask_for_a_longer_wait() -> None:
    server = Server(end=Passing("busy"))
    server.answer = 5.0
    assert await server.pauses(5) == [5, 5, 5, 8, 8]
    assert len(server.told) == len(server.opened), "the last of them too"


async def test_the_items_of_all_streams_come_as_one() -> None:
    server = Server("a", None, "b", end=Passing("broke"))
    async with aclosing(server.watch()) as items:
        assert [await anext(items) for _ in range(4)] == ["a", "b", "a", "b"]


async def test_an_error_that_will_not_pass_ends_it() -> None:
    with pytest.raises(ValueError, match="a bug"):
        await anext(Server(end=ValueError("a bug")).watch())


async def test_who_is_told_of_an_error_may_end_it() -> None:
    server = Server(end=Passing("expired"))
    server.answer = LookupError("list again")
    with pytest.raises(LookupError):
        await anext(server.watch())
    assert len(server.opened) == 1


async def test_what_the_reader_raises_ends_it_and_closes_the_stream() -> None:
    server = Server("news", lasting=60.0)
    with pytest.raises(Passing):
        async with aclosing(server.watch()) as items:
            async for _ in items:
                raise Passing("the reader's own")
    assert (server.open, server.told) == (0, [])
