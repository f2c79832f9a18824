"""A cluster on which schedulers are to be compared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.lab.bench.compare import version_served
from podsched.serve.client.errors import Unavailable

pytestmark = pytest.mark.looptime


def cluster(answer: Callable[[], Awaitable[dict[str, Any]]]) -> Any:
    async def request(method: str, path: str) -> dict[str, Any]:
        assert (method, path) == ("GET", "/version")
        return await answer()

    return SimpleNamespace(request=request, access=SimpleNamespace(server="https://a.example"))


async def test_the_version_is_the_one_that_the_server_names() -> None:
    async def answer() -> dict[str, Any]:
        return {"gitVersion": "v1.36.2"}

    assert await version_served(cluster(answer)) == "v1.36.2"


async def test_a_server_that_is_silent_is_named_after_ten_seconds() -> None:
    async def answer() -> dict[str, Any]:
        await asyncio.sleep(300)
        raise AssertionError

    with pytest.raises(Unavailable, match=r"^https://a\.example: no answer within 10 s$"):
        await version_served(cluster(answer))
    assert asyncio.get_running_loop().time() == 10


async def test_a_server_that_refuses_connections_is_named() -> None:
    async def answer() -> dict[str, Any]:
        raise Unavailable("connection refused")

    with pytest.raises(Unavailable, match=r"^https://a\.example: connection refused$"):
        await version_served(cluster(answer))
