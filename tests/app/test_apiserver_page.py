"""What an API server's page reads of the watch cache, and does in its caller's name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from podsched.api.objects import Node
from podsched.app.apiserver_page import CallerApi, WatchCacheSource
from podsched.ask.web.access import Caller, act, review
from podsched.serve.server.access.authentication import CallAuthenticator
from podsched.serve.server.core import ServerCore
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.replicas import Replicas
from podsched.serve.server.rest.handling import Handler
from podsched.serve.server.rest.probes import Probes
from podsched.serve.server.scheduling import SchedulingService
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.telemetry.health import HealthChecks
from podsched.testing.memory_store import MemoryStore
from podsched.v1.scheduling_pb2 import ExplainRequest
from support.page_world import node, pod

ANONYMOUS = Caller("", b"", "ipv4:127.0.0.1:1")


@pytest.fixture
async def core() -> AsyncIterator[ServerCore]:
    made = ServerCore(ServerSettings(watch_cache_events=10), MemoryStore())
    await made.start()
    yield made
    await made.stop()


async def create(core: ServerCore, *names: str) -> None:
    await core.creator.create_many([node(name) for name in names])
    await core.reflector.wait_until_fresh()


def face(core: ServerCore, pipeline: Pipeline) -> CallerApi:
    handler = Handler(core, pipeline, Probes(HealthChecks()))
    return CallerApi(handler, SchedulingService(Replicas(), core.storage), pipeline)


def asked(kind: str, name: str) -> ExplainRequest:
    return ExplainRequest(kind=kind, namespace="default", name=name)


async def test_changes_are_read_on_request(core: ServerCore) -> None:
    source = WatchCacheSource(core.cache)
    await create(core, "n0")
    source.follow()
    await create(core, "n1", "n2")
    assert sorted(source.changed() or ()) == [("Node", "n1"), ("Node", "n2")]
    assert list(source.changed() or ()) == []
    found = source.get("Node", "n1")
    assert isinstance(found, Node) and found.metadata.name == "n1"
    assert source.get("Node", "none") is None
    assert sorted(source.keys("Node")) == ["n0", "n1", "n2"]


async def test_changes_that_the_ring_has_lost_are_a_new_beginning(core: ServerCore) -> None:
    source = WatchCacheSource(core.cache)
    source.follow()
    for number in range(3):
        await create(core, *(f"n{number}-{index}" for index in range(10)))
    assert source.changed() is None


async def test_an_object_that_cannot_be_read_is_none(core: ServerCore) -> None:
    source = WatchCacheSource(core.cache)
    await core.reflector.wait_until_fresh()
    store = core.storage._store  # what etcd's own tools could write
    await store.txn([], [Put("/podsched/objects/nodes/broken", b"\xff")])
    await core.reflector.wait_until_fresh()
    assert source.get("Node", "broken") is None


async def test_without_authentication_the_page_may_do_everything(core: ServerCore) -> None:
    await create(core, "n0")
    asked = act("cordon", "n0")
    assert asked is not None
    reply = await face(core, Pipeline()).ask(ANONYMOUS, asked)
    assert (reply.status, json.loads(reply.body)["spec"]["unschedulable"]) == (200, True)
    await core.reflector.wait_until_fresh()
    found = WatchCacheSource(core.cache).get("Node", "n0")
    assert isinstance(found, Node) and found.spec.unschedulable


async def test_what_fails_is_answered_with_its_status(core: ServerCore) -> None:
    asked = act("delete", "default/none")
    assert asked is not None
    reply = await face(core, Pipeline()).ask(ANONYMOUS, asked)
    assert reply.status == 404 and json.loads(reply.body)["message"]


async def test_a_caller_without_a_credential_is_refused(core: ServerCore) -> None:
    pipeline = Pipeline(
        authenticate=CallAuthenticator(certificates=True), authorize=core.authorizer.rights_of
    )
    for reply in (
        await face(core, pipeline).ask(ANONYMOUS, review("list", "nodes")),
        await face(core, pipeline).explain(ANONYMOUS, asked("Pod", "p0")),
    ):
        assert (reply.status, json.loads(reply.body)["message"]) == (401, "Unauthorized")


async def test_an_explanation_needs_a_pod_and_a_replica(core: ServerCore) -> None:
    reply = await face(core, Pipeline()).explain(ANONYMOUS, asked("Pod", "p0"))
    assert (reply.status, json.loads(reply.body)["reason"]) == (404, "NotFound")
    reply = await face(core, Pipeline()).explain(ANONYMOUS, asked("PodGroup", "g"))
    assert (reply.status, "podgroups" in json.loads(reply.body)["message"]) == (404, True)
    stored = pod("p0")
    stored.spec.containers[0].image = "web:1"
    await core.creator.create_many([stored])
    await core.reflector.wait_until_fresh()
    reply = await face(core, Pipeline()).explain(ANONYMOUS, asked("Pod", "p0"))
    assert reply.status == 503 and "replica" in json.loads(reply.body)["message"]
