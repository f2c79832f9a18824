"""API servers over real gRPC on real etcd, as their clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from structlog.testing import capture_logs

from podsched.api.manifest import from_manifest, load_documents
from podsched.api.objects import Pod
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.informer import Batch, Informer
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Write, WriteOutcome
from podsched.v1 import api_pb2 as v1
from support.api_objects import binding, node, pod
from support.api_servers import Servers
from support.eventually import PATIENCE

pytestmark = pytest.mark.integration

FIVE_MISTAKES = """
apiVersion: v1
kind: Pod
metadata:
  name: Web_1
  labels: {"bad key!": x}
spec:
  restartPolicy: Sometimes
  containers:
  - name: app
    image: registry.example/app:1
    ports: [{containerPort: 99999}]
    resources: {requests: {cpu: 2}, limits: {cpu: 1}}
"""


async def seen_by(informer: Informer, revision: int) -> None:
    async with asyncio.timeout(PATIENCE):
        await informer.synced.wait()
        await informer.wait_for_revision(revision)


# ---------------------------------------------------------------------------- bad input


async def test_a_manifest_with_five_mistakes_gets_all_of_them(servers: Servers) -> None:
    """Each with the path of its field, and the server goes on."""
    client = servers.client(await servers.start())
    decoded = from_manifest(load_documents(FIVE_MISTAKES)[0])
    with pytest.raises(errors.Invalid) as refused:
        await client.create(decoded.message)
    assert {violation.field for violation in refused.value.violations} == {
        "metadata.name",
        "metadata.labels",
        "spec.restartPolicy",
        "spec.containers[0].ports[0].containerPort",
        "spec.containers[0].resources.requests",
    }
    await client.create(pod())


async def test_an_unknown_kind_is_named(servers: Servers) -> None:
    """In kubectl's words, for every call that names a kind."""
    client = servers.client(await servers.start())
    for call in (client.get("Pad", "x"), client.list("Pad"), client.delete("Pad", "x")):
        with pytest.raises(errors.Invalid, match='the server doesn\'t have a resource type "Pad"'):
            await call


async def test_a_message_of_20_megabytes_is_refused(servers: Servers) -> None:
    """As one object and as a batch; the connection and the server go on."""
    client = servers.client(await servers.start())
    item = pod()
    item.metadata.annotations["big"] = "x" * (20 << 20)
    with pytest.raises(errors.TooLarge, match="larger than max"):
        await client.create(item)
    item.metadata.annotations["big"] = "x" * (2 << 20)
    with pytest.raises((errors.TooLarge, errors.Invalid), match=r"annotations|large"):
        await client.create(item)
    await client.create(pod())


async def test_a_compressed_message_that_unfolds_to_60_megabytes_is_refused(
    servers: Servers,
) -> None:
    server = await servers.start()
    compressed = grpc.Compression.Gzip
    async with grpc.aio.insecure_channel(server.address, compression=compressed) as channel:
        call = channel.unary_unary("/podsched.v1.Pods/CreatePods")(bytes(60 << 20))
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than max" in await call.details()
    await servers.client(server).create(pod())


async def test_a_second_pod_of_the_same_name_is_refused(servers: Servers) -> None:
    """Singly and in a batch."""
    client = servers.client(await servers.start())
    await client.create(pod())
    with pytest.raises(errors.AlreadyExists, match='pods "web" already exists'):
        await client.create(pod())
    (result,) = await client.create_pods([pod()])
    assert isinstance(errors.of_result(result), errors.AlreadyExists)


async def test_an_update_on_an_old_resource_version_is_a_conflict(servers: Servers) -> None:
    """The newer state stays."""
    client = servers.client(await servers.start())
    old = await client.create(node())
    old.metadata.labels["a"] = "1"
    await client.update(old)
    old.metadata.labels["a"] = "2"
    with pytest.raises(errors.Conflict, match="the object has been modified"):
        await client.update(old)


async def test_a_batch_that_is_too_long_is_refused(servers: Servers) -> None:
    """With the number and the limit."""
    client = servers.client(await servers.start())
    with pytest.raises(errors.TooLarge, match="at most 5000 items, this one has more"):
        await client.create_pods([pod(f"p{n}") for n in range(5001)])


async def test_bytes_that_are_no_request_are_refused(servers: Servers) -> None:
    """INVALID_ARGUMENT, not an error of the server."""
    server = await servers.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/podsched.v1.Objects/Get")(b"\xff\xff\xff")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_bug_is_an_id_to_the_client_and_a_traceback_in_the_log(servers: Servers) -> None:
    """INTERNAL without a word of the traceback; the log has it under the id."""
    server = await servers.start()

    async def broken(*_: Any) -> None:
        raise RuntimeError("secret detail")

    server.core.registry.get = broken  # type: ignore[method-assign,assignment]
    with capture_logs() as lines, pytest.raises(errors.ServerBug) as failed:
        await servers.client(server).get("Pod", "x")
    assert "secret" not in failed.value.message
    incident = failed.value.message.split()[2].rstrip(":")
    (line,) = [line for line in lines if line.get("incident") == incident]
    assert isinstance(line["exc_info"], RuntimeError)


async def test_a_thousand_mistakes_still_fit_an_answer(servers: Servers) -> None:
    """Details are cut to what a header may hold."""
    client = servers.client(await servers.start())
    item = pod()
    for number in range(1000):
        item.spec.tolerations.add(key=f"bad key {number}", operator="Sometimes")
    with pytest.raises(errors.Invalid) as refused:
        await client.create(item)
    assert refused.value.violations


# ---------------------------------------------------------------------------- fences


async def test_a_deposed_leader_cannot_bind_and_could_without_its_fence(servers: Servers) -> None:
    """The paused leader's late write fails on the fence, which alone keeps it from succeeding."""
    client = servers.client(await servers.start())
    await client.create(node())
    await client.create_pods([pod("fenced"), pod("unfenced")])
    deposed = await servers.new_term()
    await servers.new_term()
    with pytest.raises(errors.FenceLost):
        await client.bind(binding("fenced", "node-1"), fence=deposed)
    fenced = await client.get("Pod", "fenced")
    assert isinstance(fenced, Pod) and fenced.spec.node_name == ""
    assert (await client.bind(binding("unfenced", "node-1"))).spec.node_name == "node-1"


async def test_a_bound_pod_tells_where_it_is(servers: Servers) -> None:
    """AlreadyBound with the node."""
    client = servers.client(await servers.start())
    await client.create(node())
    await client.create(node("node-2"))
    await client.create(pod())
    await client.bind(binding("web", "node-1"))
    with pytest.raises(errors.AlreadyBound) as refused:
        await client.bind(binding("web", "node-2"))
    assert refused.value.node_name == "node-1"


# ---------------------------------------------------------------------------- several servers


async def test_what_one_server_has_answered_the_other_shows(servers: Servers) -> None:
    """Get and list through the second, right after a write through the first."""
    one, two = await servers.start(), await servers.start()
    writer, reader = servers.client(one), servers.client(two)
    for number in range(20):
        name = f"p{number}"
        await writer.create(pod(name))
        assert (await reader.get("Pod", name)).metadata.name == name
        assert len((await reader.list("Pod")).items) == number + 1


async def test_two_servers_bind_a_pod_once(servers: Servers) -> None:
    """Raced through both: each pod has one winner."""
    one, two = await servers.start(), await servers.start()
    clients = servers.client(one), servers.client(two)
    names = [f"p{number}" for number in range(100)]
    await clients[0].create_pods([pod(name) for name in names])
    for at in range(2):
        await clients[0].create(node(f"node-{at}"))
    results = await asyncio.gather(
        *(
            client.bind_pods([binding(name, f"node-{at}") for name in names])
            for at, client in enumerate(clients)
        )
    )
    for first, second in zip(*results, strict=True):
        assert sorted([first.code, second.code]) == [0, 9]
        loser = first if first.code else second
        assert loser.reason == "ALREADY_BOUND"


async def test_an_informer_goes_on_through_the_next_server(servers: Servers) -> None:
    """The server it follows stops: nothing is lost, nothing repeated, nothing listed again."""
    one, two = await servers.start(), await servers.start()
    writer = servers.client(two)
    batches: list[Batch] = []
    informer = Informer(servers.client(one, two), ["Pod"])
    task = asyncio.create_task(informer.run(batches.append))
    await writer.create(pod("before"))
    await informer.synced.wait()
    await one.stop(0)
    created = [await writer.create(pod(f"p{number}")) for number in range(10)]
    await seen_by(informer, int(created[-1].metadata.resource_version))
    keys = [event.key for batch in batches for event in batch.events]
    assert keys == ["default/before", *(f"default/p{number}" for number in range(10))]
    assert informer.relists == 0
    task.cancel()


async def test_an_informer_survives_compaction(servers: Servers) -> None:
    """Its server is replaced by one that does not know its revision any more: differences only."""
    one = await servers.start()
    client = servers.client(one)
    await client.create_pods([pod("stays"), pod("goes")])
    batches: list[Batch] = []
    two = await servers.start()
    informer = Informer(ApiClient([one.address], ClientOptions(watch_silence=2)), ["Pod"])
    task = asyncio.create_task(informer.run(batches.append))
    await informer.synced.wait()
    await one.stop(0)
    other = servers.client(two)
    await other.delete("Pod", "goes")
    last = await other.create(pod("comes"))
    revision = int(last.metadata.resource_version)
    await servers.stores[0].compact(revision)
    three = await servers.start(ServerSettings(port=one.port, bookmark_seconds=0.2))
    assert three.core.cache.ring.floor >= revision
    await seen_by(informer, revision)
    assert informer.relists == 1
    changes = [(event.type.name, event.key) for batch in batches[1:] for event in batch.events]
    assert changes == [("DELETED", "default/goes"), ("ADDED", "default/comes")]
    task.cancel()


async def test_a_dead_endpoint_is_passed_over(servers: Servers) -> None:
    """Calls go to the next server, writes included: a call that did not connect was not done."""
    one, two = await servers.start(), await servers.start()
    client = servers.client(one, two)
    await one.stop(0)
    await client.create(pod())
    assert client.channels.endpoint == two.address


async def test_no_server_at_all_is_unavailable(servers: Servers) -> None:
    """Within the call's deadline."""
    server = await servers.start()
    await server.stop(0)
    client = ApiClient(server.address, ClientOptions(timeout=0.5))
    with pytest.raises(errors.Unavailable):
        await client.get("Pod", "x")
    await client.close()


async def test_a_client_that_does_not_wait_for_a_server_asks_each_once(servers: Servers) -> None:
    server = await servers.start()
    await server.stop(0)
    options = ClientOptions(timeout=10 * PATIENCE, wait_for_server=False)
    client = ApiClient([server.address, "nohost.invalid:7443"], options)
    with pytest.raises(errors.Unavailable):
        await asyncio.wait_for(client.create(pod()), PATIENCE)
    await client.close()


# ---------------------------------------------------------------------------- being a server


async def test_concurrent_single_writes_share_transactions(servers: Servers) -> None:
    """Group commit: 200 calls at once take fewer than 200 revisions."""
    client = servers.client(await servers.start())
    created = await asyncio.gather(*(client.create(pod(f"p{n}")) for n in range(200)))
    revisions = {item.metadata.resource_version for item in created}
    assert len(revisions) < 200


async def test_large_lists_come_in_pages(servers: Servers) -> None:
    """A response stays bounded although no limit was asked for; the client joins the pages."""
    client = servers.client(await servers.start())
    for number in range(6):  # of 900 KB each; a response has about 4 MiB
        item = node(f"n{number}")
        item.status.conditions.add(type="Ready", message="x" * 900_000)
        await client.create(item)
    page = await client.list_page(v1.ListRequest(kind="Node"))
    assert 0 < len(page.items) < 6
    assert getattr(page, "continue")
    listing = await client.list("Node")
    assert [item.metadata.name for item in listing.items] == [f"n{number}" for number in range(6)]


async def test_health_tells_whether_it_serves(servers: Servers) -> None:
    """SERVING while it does, NOT_SERVING while it drains."""
    server = await servers.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "podsched.v1.Objects", "podsched.v1.Pods"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_reflection_lists_the_services(servers: Servers) -> None:
    """For grpcurl and its like."""
    server = await servers.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([request]))
        answer = await anext(aiter(call))
        names = {service.name for service in answer.list_services_response.service}
    assert {"podsched.v1.Objects", "podsched.v1.Pods", "grpc.health.v1.Health"} <= names


async def test_stopping_lets_calls_finish(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is under way is answered; watches end at once; what comes too late is told so."""
    server = await servers.start()
    client = ApiClient(server.address, ClientOptions(timeout=PATIENCE, wait_for_server=False))
    informer = Informer(servers.client(server), ["Pod"])
    task = asyncio.create_task(informer.run(lambda batch: None))
    await informer.synced.wait()
    reached, may_go, (store,) = asyncio.Event(), asyncio.Event(), servers.stores
    write_many = store.write_many

    async def held_up(writes: Sequence[Write]) -> list[WriteOutcome]:
        reached.set()
        await may_go.wait()
        return await write_many(writes)

    monkeypatch.setattr(store, "write_many", held_up)
    call = asyncio.create_task(client.create(pod("in-time")))
    await reached.wait()
    async with asyncio.timeout(PATIENCE):
        stopping = asyncio.create_task(server.stop(10 * PATIENCE))
        await asyncio.sleep(0.1)
        may_go.set()
        await stopping
    assert isinstance(await call, Pod)
    with pytest.raises(errors.Unavailable):
        await client.create(pod("late"))
    task.cancel()


async def test_a_taken_port_is_an_error_at_once(servers: Servers) -> None:
    """Two servers never share a port by accident."""
    server = await servers.start()
    with pytest.raises(OSError, match=r"cannot listen on .*: it is in use"):
        await servers.start(ServerSettings(port=server.port))


# ---------------------------------------------------------------------------- a stream of pods


async def test_pods_are_submitted_one_by_one_over_a_stream(servers: Servers) -> None:
    """The first server has gone; what is refused is refused by itself."""
    gone, server = await servers.start(), await servers.start()
    await gone.stop(0)
    client = servers.client(gone, server)
    async with client.submit_pods() as stream:
        answers = [await stream.submit(pod(f"streamed-{n % 1500}")) for n in range(1501)]
        results = [await answer for answer in answers]
    assert {result.code for result in results[:-1]} == {0}
    assert isinstance(errors.of_result(results[-1]), errors.AlreadyExists)
    listed = await client.list("Pod", field_selector="metadata.name=streamed-1499")
    assert [int(item.metadata.resource_version) for item in listed.items] == [
        results[1499].resource_version
    ]


@pytest.mark.parametrize("pause", [0.01, 0], ids=["idle client", "busy client"])
async def test_a_server_that_stops_ends_a_stream_of_pods(servers: Servers, pause: float) -> None:
    """At once, not after its grace; what it had read is answered.

    A busy client is sending a pod at the moment at which the stream ends.
    """
    server = await servers.start()
    client = servers.client(server)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        with pytest.raises(errors.Unavailable, match="the server is shutting down"):
            async with client.submit_pods() as stream:
                assert (await (await stream.submit(pod("before-the-stop")))).code == 0
                tasks.create_task(server.stop(10 * PATIENCE))
                while True:
                    await stream.submit(pod("after-the-stop"))
                    await asyncio.sleep(pause)
