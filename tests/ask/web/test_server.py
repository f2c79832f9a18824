"""The page over HTTP, on a real socket of the loopback interface."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from google.protobuf.json_format import MessageToJson

from podsched.api.objects import ClusterQueue
from podsched.ask.web import server as module
from podsched.ask.web.access import Act, Caller, Reply
from podsched.ask.web.feed import MOST_OF_CALLER, Feed
from podsched.ask.web.server import PageServices, serve_page
from podsched.lib.tls_contexts import ConnectingContext, TlsFiles
from podsched.telemetry.http_server import HttpServer, HttpServerError
from podsched.v1.scheduling_pb2 import ExplainRequest
from support.certificates import make_certificates
from support.page_world import START, World, leadership, node, pod, pod_group

pytestmark = pytest.mark.integration

OWN = {"X-Podsched-Page": "1"}


@dataclass
class FakeApi:
    """A ``RestApi`` and ``Explainer`` that knows who may do what by his token."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)
    readers: frozenset[str] = frozenset({"Bearer reader", "Bearer admin"})
    authenticates: bool = True

    async def ask(self, caller: Caller, asked: Act) -> Reply:
        if not caller.authorization:
            return Reply(401, b'{"message": "the call has no bearer token"}')
        if "selfsubjectaccessreviews" in asked.path:
            wanted = json.loads(asked.body)["spec"]["resourceAttributes"]
            allowed = caller.authorization == "Bearer admin" or (
                caller.authorization in self.readers and wanted["verb"] == "list"
            )
            if caller.authorization == "Bearer reader" and wanted["resource"] == "clusterqueues":
                allowed = False
            if caller.authorization == "Bearer podreader":
                allowed = (wanted["group"], wanted["verb"]) == ("", "list")
            return Reply(201, json.dumps({"status": {"allowed": allowed}}).encode())
        self.asked.append((caller.authorization, asked.method, asked.path))
        return Reply(200, b"{}")

    async def explain(self, caller: Caller, asked: ExplainRequest) -> Reply:
        return Reply(200, MessageToJson(asked).encode())


@asynccontextmanager
async def serving(world: World, **options: Any) -> AsyncIterator[HttpServer]:
    seen = leadership("a_00000001", 7, since=START)
    feed = Feed(world, lambda _: seen, lambda: {"name": "test"})
    server = await serve_page(feed, world, "127.0.0.1", 0, **options)
    running = asyncio.create_task(feed.run())
    try:
        yield server
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop()


@pytest.fixture
def world() -> World:
    made = World()
    made.put(node("n0"))
    made.put(pod("p0", "n0"))
    made.put(pod("waits", message="0/1 nodes are available: 1 Insufficient cpu."))
    return made


@dataclass
class Client:
    """A client of a server. seen: the headers of the last answer."""

    session: aiohttp.ClientSession
    url: str
    seen: Any = None

    async def __call__(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.url + path, headers=told) as response:
            self.seen = response.headers
            body = await response.read()
            if response.content_type == "application/json":
                return response.status, json.loads(body)
            return response.status, body.decode()


@asynccontextmanager
async def client_of(server: HttpServer, **options: Any) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(**options) as session:
        yield Client(session, server.url.rstrip("/"))


async def test_the_page_and_its_files_are_served_with_strict_headers(world: World) -> None:
    async with serving(world) as server, client_of(server) as get:
        status, text = await get("/")
        assert status == 200 and "<title>podsched</title>" in text
        assert get.seen["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in get.seen["Content-Security-Policy"]
        assert (await get("/static/app.js"))[0] == 200
        assert get.seen["Content-Type"] == "text/javascript; charset=utf-8"
        for path in ("/static/..%2Fserver.py", "/static/none.js", "/etc/passwd"):
            assert (await get(path))[0] == 404
            assert "default-src 'none'" in get.seen["Content-Security-Policy"]


async def test_state_details_and_deltas_are_read(world: World) -> None:
    async with serving(world) as server, client_of(server) as get:
        _, state = await get("/api/state")
        assert get.seen["Content-Encoding"] == "gzip"
        assert state["totals"] == {
            "nodes": 1,
            "usable": 1,
            "bound": 1,
            "pending": 1,
            "lines": 1,
            "ended": 0,
        }
        _, found = await get("/api/node/n0")
        assert found["pods"] == [["default/p0", "", 0, {"cpu": 500, "pods": 1}]]
        _, found = await get("/api/pod/default/waits")
        assert found["conditions"][0][:3] == ["PodScheduled", "False", "Unschedulable"]
        assert (await get("/api/node/none"))[0] == 404
        stream = f"{get.url}/api/stream?after={state['id']}"
        async with get.session.get(stream) as response:
            assert response.content_type == "text/event-stream"
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            world.remove("Pod", "default/waits")
            async for line in response.content:
                if line.startswith(b"data: "):
                    delta = json.loads(line[6:])
                    if "pending" in delta:
                        break
        assert delta["pending"]["gone"] == ["default/waits"]


async def test_the_stream_is_no_answer_to_head(world: World) -> None:
    async with (
        serving(world) as server,
        client_of(server) as get,
        get.session.head(f"{get.url}/api/stream") as response,
    ):
        assert response.status == 405


@pytest.mark.parametrize("authenticates", [True, False])
async def test_browsers_of_one_user_or_else_of_one_address_take_half_of_all_places(
    world: World, authenticates: bool
) -> None:
    """A token that nobody checks makes no other user."""
    names = [f"Bearer {number}" for number in range(MOST_OF_CALLER + 1)]
    api = FakeApi(readers=frozenset(names), authenticates=authenticates)
    async with (
        serving(world, services=PageServices(api=api)) as server,
        aiohttp.ClientSession() as session,
        AsyncExitStack() as streams,
    ):
        found = []
        _, state = await Client(session, server.url)("/api/state", Authorization=names[0])
        for name in names:
            asked = session.get(
                f"{server.url}/api/stream?after={state['id']}", headers={"Authorization": name}
            )
            answer = await streams.enter_async_context(asked)
            found.append(answer.status)
    assert found == [200] * MOST_OF_CALLER + [200 if authenticates else 503]


async def test_pods_are_searched_for(world: World) -> None:
    async with serving(world) as server, client_of(server) as get:
        status, found = await get("/api/pods?find=P0&namespace=default")
        assert (status, [row[0] for row in found["pods"]]) == (200, ["default/p0"])
        assert found["namespaces"] == [["default", 2]]


async def test_searches_run_one_after_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once they would hold up the event loop."""
    running, most = 0, 0

    async def search(*_: object) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return {}

    monkeypatch.setattr(module, "find_pods", search)
    async with serving(world) as server, client_of(server) as client:
        answers = await asyncio.gather(*(client("/api/pods") for _ in range(10)))
    assert answers == [(200, {})] * 10
    assert most == 1


async def test_pod_groups_are_read_and_explained(world: World) -> None:
    world.put(pod_group("train", 2))
    world.put(pod("train-0", group="train"))
    services = PageServices(FakeApi(), FakeApi())
    async with serving(world, services=services) as server, client_of(server) as get:
        admin = {"Authorization": "Bearer admin"}
        status, found = await get("/api/podgroup/default/train", **admin)
        assert (status, found["members"]) == (200, 1)
        assert (await get("/api/podgroup/default/none", **admin))[0] == 404
        _, found = await get("/api/explain/default/train?kind=PodGroup", **admin)
        assert found == {"kind": "PodGroup", "namespace": "default", "name": "train"}


async def test_queues_are_shown_to_those_who_may_list_them(world: World) -> None:
    queue = ClusterQueue()
    queue.metadata.name = "team"
    world.put(queue)
    face = FakeApi()
    async with (
        serving(world, services=PageServices(face, face)) as server,
        client_of(server) as get,
    ):
        _, found = await get("/api/queues", Authorization="Bearer admin")
        assert [row["name"] for row in found["queues"]] == ["team"]
        _, found = await get("/api/queues", Authorization="Bearer reader")
        assert found == {"queues": [], "count": 0}


async def test_strangers_pages_are_refused(world: World) -> None:
    async with serving(world) as server, client_of(server) as get:
        assert (await get("/api/state", Host="evil.example"))[0] == 403
        assert (await get("/api/state", Sec_Fetch_Site="cross-site"))[0] == 403
        assert (await get("/api/state", Origin="http://evil.example"))[0] == 403


async def test_without_a_face_nothing_can_be_changed(world: World) -> None:
    async with serving(world) as server, client_of(server) as get:
        assert await get("/api/rights") == (200, {"explain": False})
        status, said = await get("/api/do/cordon/n0", "POST", **OWN)
        assert status == 404 and "changes nothing" in said["message"]


async def test_callers_see_and_do_what_they_may(world: World) -> None:
    face = FakeApi()
    services = PageServices(face, face)
    async with serving(world, services=services) as server, client_of(server) as get:
        assert (await get("/"))[0] == 200, "no data in it"
        for path in ("/api/state", "/api/stream", "/api/node/n0", "/api/pod/default/p0"):
            assert (await get(path))[0] == 401
            assert (await get(path, Authorization="Bearer stranger"))[0] == 403
            status, said = await get(path, Authorization="Bearer podreader")
            assert status == 403 and "podgroups" in said["message"]
        assert (await get("/api/state", Authorization="Bearer reader"))[0] == 200
        _, may = await get("/api/rights", Authorization="Bearer reader")
        assert may == {"explain": False, "cordon": False, "delete": False}
        _, may = await get("/api/rights", Authorization="Bearer admin")
        assert may == {"explain": True, "cordon": True, "delete": True}
        _, found = await get("/api/explain/default/p0?changes", Authorization="Bearer reader")
        assert found == {"kind": "Pod", "namespace": "default", "name": "p0", "changes": True}


async def test_actions_are_made_in_the_callers_name_and_by_the_page_alone(world: World) -> None:
    face = FakeApi()
    async with serving(world, services=PageServices(face)) as server, client_of(server) as get:
        admin = {"Authorization": "Bearer admin"}
        assert (await get("/api/do/cordon/n0", "POST", **admin))[0] == 403, "no header of its own"
        assert (await get("/api/do/cordon/n0", "GET", **admin, **OWN))[0] == 405
        assert (await get("/api/do/drain/n0", "POST", **admin, **OWN))[0] == 404
        assert not face.asked
        assert (await get("/api/do/delete/default/p0", "POST", **admin, **OWN))[0] == 200
        assert face.asked == [("Bearer admin", "DELETE", "/api/v1/namespaces/default/pods/p0")]


async def test_a_replica_with_authorities_demands_certificates_for_data(
    world: World, tmp_path: Path
) -> None:
    files = make_certificates(tmp_path)
    tls = TlsFiles(str(files.ca), str(files.cert), str(files.key))
    stranger = ssl.create_default_context(cafile=str(files.ca))
    known = ConnectingContext(tls, pytest.fail).latest()
    async with serving(world, tls=tls) as server:
        assert server.url.startswith("https://")
        async with client_of(server, connector=aiohttp.TCPConnector(ssl=stranger)) as get:
            assert (await get("/"))[0] == 200
            assert (await get("/api/state"))[0] == 401
        async with client_of(server, connector=aiohttp.TCPConnector(ssl=known)) as get:
            assert (await get("/api/state"))[0] == 200


async def test_an_address_in_use_is_the_operators_mistake(world: World) -> None:
    async with serving(world) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])
        feed = Feed(world, lambda _: leadership(""), dict)
        with pytest.raises(HttpServerError, match="cannot serve the page on"):
            await serve_page(feed, world, "127.0.0.1", port)
