"""Binding through a binder actor and a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from podsched.actors import binder_actor
from podsched.actors.binder_actor import ApiServers, BinderActor, NotBound, RayBinder
from podsched.actors.named_actor import NamedActor
from podsched.actors.ray_cluster import RayUnavailable
from podsched.actors.term_actors import ActorOptions, TermActors
from podsched.actors.terms import StaleTerm
from podsched.api.etcd_keys import term_key
from podsched.cache.columns import Columns
from podsched.config.settings import EvaluatorSettings
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import OutcomeUnknown, Unavailable
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2
from support.api_objects import LOCK, node, pod
from support.api_servers import start_api_server
from support.certificates import make_certificates
from support.direct_binder import DirectBinder
from support.eventually import eventually
from support.fake_ray import FakeRay

pytestmark = pytest.mark.integration


NOWHERE = ApiServers(("127.0.0.1:1",))


class NeverBinder:
    """What is left when there is no actor: here nothing."""

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        raise Unavailable("directly")


@dataclass
class Api:
    """A server on a store in memory, and a client of it."""

    store: MemoryStore
    address: str
    client: ApiClient

    async def new_term(self) -> api_pb2.Fence:
        result = await self.store.txn([], [Put(term_key(LOCK), b"me")])
        return api_pb2.Fence(lock=LOCK, term=result.revision)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    store = MemoryStore()
    server = await start_api_server(ServerSettings(), store)
    client = ApiClient([server.address])
    yield Api(store, server.address, client)
    await client.close()
    await server.stop(0.5)
    await store.close()


async def pending(api: Api, *names: str) -> list[api_pb2.Binding]:
    """Pods that wait, and bindings of them to a node."""
    bindings = []
    for name in names:
        created = await api.client.create(pod(name))
        uid = created.metadata.uid
        bindings.append(
            api_pb2.Binding(namespace="default", name=name, uid=uid, node_name="node-1")
        )
    return bindings


async def binder_of(ray: FakeRay, address: str, term: int) -> RayBinder:
    actor = NamedActor(ray, "binder-0", BinderActor, (), term, (ApiServers((address,)),))  # type: ignore[arg-type]
    await actor.ensure()
    return RayBinder([actor], NeverBinder())


async def test_an_actor_binds_with_the_leaders_fence(api: Api) -> None:
    await api.client.create(node())
    bindings = await pending(api, "a", "b")
    fence = await api.new_term()
    binder = await binder_of(FakeRay(), api.address, fence.term)
    results = await binder.bind_pods(bindings, fence=fence)
    assert [result.code for result in results] == [0, 0]
    bound = await api.client.get("Pod", "a", "default")
    assert bound.spec.node_name == "node-1"  # type: ignore[union-attr]


async def test_a_leader_that_reaches_the_servers_in_another_way_takes_the_actor_over(
    api: Api,
) -> None:
    await api.client.create(node())
    ray = FakeRay()
    fence = await api.new_term()
    before = await binder_of(ray, "127.0.0.1:1", fence.term)
    with pytest.raises(Unavailable, match="directly"):
        await before.bind_pods(await pending(api, "a"), fence=fence)
    fence = await api.new_term()
    binder = await binder_of(ray, api.address, fence.term)
    results = await binder.bind_pods(await pending(api, "b"), fence=fence)
    assert [result.code for result in results] == [0]
    assert ray.created == ["binder-0"]


async def test_a_deposed_leaders_bindings_fail_through_an_actor_too(api: Api) -> None:
    await api.client.create(node())
    bindings = await pending(api, "a")
    fence = await api.new_term()
    binder = await binder_of(FakeRay(), api.address, fence.term)
    await api.new_term()
    results = await binder.bind_pods(bindings, fence=fence)
    assert [result.reason for result in results] == ["FENCE_LOST"]


class SilentBinderActor(BinderActor):
    """An actor that takes work and never answers, as after the death of Ray's head."""

    async def bind(self, term: int, request: bytes, traceparent: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_batch_that_an_actor_keeps_is_also_sent_directly(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binder_actor, "PATIENCE", 0.01)
    await api.client.create(node("node-1"))
    fence, bindings = await api.new_term(), await pending(api, "a")
    ray = FakeRay()
    actor = NamedActor(ray, "binder-0", SilentBinderActor, (), fence.term, (NOWHERE,))  # type: ignore[arg-type]
    await actor.ensure()
    (result,) = await RayBinder([actor], api.client).bind_pods(bindings, fence=fence)
    assert result.code == 0
    assert actor.ready


class OneSilentCallActor(BinderActor):
    """An actor whose first call ends without a result when ``release`` is set."""

    release: asyncio.Event
    asked = 0

    async def bind(self, term: int, request: bytes, traceparent: str) -> bytes | NotBound:
        type(self).asked += 1
        if self.asked == 1:
            await self.release.wait()
        return NotBound("silent")


async def test_an_actor_gets_no_batches_while_a_call_to_it_is_overdue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binder_actor, "PATIENCE", 0.01)
    monkeypatch.setattr(OneSilentCallActor, "asked", 0)
    OneSilentCallActor.release = asyncio.Event()
    actor = NamedActor(FakeRay(), "binder-0", OneSilentCallActor, (), 3, (NOWHERE,))  # type: ignore[arg-type]
    await actor.ensure()
    binder = RayBinder([actor], DirectBinder())
    for _ in range(3):
        await binder.bind_pods([], fence=api_pb2.Fence())
    assert OneSilentCallActor.asked == 1
    OneSilentCallActor.release.set()
    await eventually("the call ends", lambda: not binder_actor_tasks())
    await binder.bind_pods([], fence=api_pb2.Fence())
    assert OneSilentCallActor.asked == 2


class AwayBinder:
    """A binder whose API server has lost the store."""

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        return [api_pb2.BatchResult(code=14, reason="UNAVAILABLE") for _ in bindings]


class DoubtfulActor(BinderActor):
    """An actor whose server has died before it answered."""

    async def bind(self, term: int, request: bytes, traceparent: str) -> NotBound:
        return NotBound("the connection broke", outcome_unknown=True)


class DyingActor(BinderActor):
    """An actor that dies in a call."""

    async def bind(self, term: int, request: bytes, traceparent: str) -> NotBound:
        raise RayUnavailable("the actor is dead")


class UnreachingActor(BinderActor):
    """An actor that does not reach a server."""

    async def bind(self, term: int, request: bytes, traceparent: str) -> NotBound:
        return NotBound("failed to connect")


@pytest.mark.parametrize(
    ("actor_class", "reason"),
    [
        (DoubtfulActor, "OUTCOME_UNKNOWN"),
        (DyingActor, "OUTCOME_UNKNOWN"),
        (SilentBinderActor, "OUTCOME_UNKNOWN"),
        (UnreachingActor, "UNAVAILABLE"),
    ],
)
async def test_a_binding_that_an_actor_may_have_made_is_in_doubt(
    actor_class: type[BinderActor], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binder_actor, "PATIENCE", 0.01)
    actor = NamedActor(FakeRay(), "binder-0", actor_class, (), 3, (NOWHERE,))  # type: ignore[arg-type]
    await actor.ensure()
    binder = RayBinder([actor], AwayBinder())
    (result,) = await binder.bind_pods([api_pb2.Binding()], fence=api_pb2.Fence())
    assert result.reason == reason


async def test_a_call_that_an_actor_may_have_made_is_in_doubt() -> None:
    actor = NamedActor(FakeRay(), "binder-0", DoubtfulActor, (), 3, (NOWHERE,))  # type: ignore[arg-type]
    await actor.ensure()
    with pytest.raises(OutcomeUnknown, match="directly"):
        await RayBinder([actor], NeverBinder()).bind_pods([], fence=api_pb2.Fence())


def binder_actor_tasks() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "bind by an actor"]


async def test_without_an_actor_the_batch_goes_out_directly() -> None:
    ray = FakeRay()
    binder = await binder_of(ray, "127.0.0.1:1", 3)
    ray.kill_all()
    with pytest.raises(Unavailable, match="directly"):
        await binder.bind_pods([], fence=api_pb2.Fence())


async def test_a_binder_actor_without_usable_certificates_binds_nothing(tmp_path: Path) -> None:
    missing = ClientOptions(tls_ca=str(tmp_path / "ca.crt"))
    actor = BinderActor("f")
    await actor.adopt(4, "f", ApiServers(("127.0.0.1:1",), missing))
    answer = await actor.bind(4, b"", "")
    assert isinstance(answer, NotBound)
    assert "ca.crt: No such file" in answer.problem


async def test_a_binder_actor_refuses_an_older_term() -> None:
    actor = BinderActor("f")
    await actor.adopt(4, "f", NOWHERE)
    assert await actor.bind(3, b"", "") == StaleTerm(4)


async def test_an_actor_binds_through_tls_with_the_replicas_certificate(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    ca, cert, key = str(made.ca), str(made.cert), str(made.key)
    showing = ClientOptions(tls_ca=ca, tls_cert=cert, tls_key=key)
    store = MemoryStore()
    server = await start_api_server(
        ServerSettings(tls_cert=cert, tls_key=key, tls_client_ca=ca), store
    )
    client = ApiClient([server.address], showing)
    api = Api(store, server.address, client)
    settings = EvaluatorSettings(evaluator="ray", binder="ray")
    options = ActorOptions(settings, (), (server.address,), client=showing)
    try:
        await client.create(node())
        bindings = await pending(api, "a")
        fence = await api.new_term()
        of_term = TermActors(FakeRay(), options, fence.term, Columns(), NeverBinder())  # type: ignore[arg-type]
        for actor in of_term.binders:
            await actor.ensure()
        results = await of_term.binder.bind_pods(bindings, fence=fence)
        assert [result.code for result in results] == [0]
    finally:
        await client.close()
        await server.stop(0.5)
        await store.close()
