"""Requests over HTTP, without sockets."""

from __future__ import annotations

import asyncio
from types import TracebackType

import pytest
from aiohttp import web

from podsched.lib.listening import Connection
from podsched.serve.server.errors import ApiError
from podsched.serve.server.rest import app
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

pytestmark = pytest.mark.looptime


async def test_a_refused_body_is_let_go_before_the_client_reads_the_answer(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[TracebackType | None] = []
    fail = app._Exchange.fail

    async def observed(exchange: app._Exchange, error: ApiError) -> None:
        refused: BaseException | None = error
        while refused is not None:
            held.append(refused.__traceback__)
            refused = refused.__context__
        await fail(exchange, error)

    monkeypatch.setattr(app._Exchange, "fail", observed)
    path = "/api/v1/namespaces/default/configmaps"
    response = await kube.request("POST", path, b"{", {"content-type": "application/json"})
    assert response.status == 400
    assert held == [None, None]


async def test_nothing_more_is_written_to_a_client_that_has_gone(
    world: World, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest was encrypted at once, and each piece was a line of the log."""
    large = pod("large")
    large.metadata.annotations["padding"] = "x" * 250_000
    await world.core.creator.create_many([large])
    lost = property(lambda _: len(kube.response.sent) > 64 << 10)
    monkeypatch.setattr(Connection, "is_lost", lost)
    await kube.request("GET", "/api/v1/namespaces/default/pods")
    assert len(kube.response.sent) < 150_000


async def test_a_watch_does_not_end_within_an_event(
    world: World, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(_: app._Exchange, response: web.StreamResponse, body: bytes) -> None:
        await response.write(body[:20])
        await asyncio.sleep(5)
        await response.write(body[20:])

    monkeypatch.setattr(app._Exchange, "_write", slowly)
    await world.core.creator.create(pod("a"))
    watch = "/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1"
    [event] = (await kube.get(watch)).events
    assert event["object"]["metadata"]["name"] == "a"


@pytest.mark.parametrize("host", ["http://test", "http://test:6443", "HTTPS://[::1]:6443"])
async def test_a_request_may_name_the_whole_url(kube: KubeClient, host: str) -> None:
    """HTTP asks that of each server, although clients send it to proxies."""
    listed = await kube.get(f"{host}/api/v1/namespaces?limit=1")
    assert listed.json["kind"] == "NamespaceList"
    assert (await kube.get(host)).status == 404
