"""New objects of any kind."""

from __future__ import annotations

import asyncio
from time import thread_time

import pytest

from podsched.api.objects import Service
from podsched.api.reasons import StatusCode
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.serve.server.admission import MAX_OBJECT_BYTES
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import GetResult
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import budget, node, pod
from support.api_world import World, message_of, pod_of


def delete(kind: str, name: str, **fields: object) -> v1.DeleteRequest:
    return v1.DeleteRequest(kind=kind, name=name, **fields)  # type: ignore[arg-type]


async def test_a_new_pod_is_complete(world: World) -> None:
    """Defaults, uid, creation time and generation are filled in; the status is a new pod's."""
    item = pod()
    item.status.phase = "Running"
    created = pod_of(await world.core.creator.create(item))
    assert created.metadata.uid
    assert created.metadata.generation == 1
    assert created.metadata.creation_timestamp.seconds == int(world.now)
    assert created.spec.scheduler_name == "default-scheduler"
    assert created.spec.termination_grace_period_seconds == 30
    assert created.spec.priority == 0
    assert created.status.phase == "Pending"


async def test_a_created_object_is_there_at_once(world: World) -> None:
    """A get after the create sees it, with the revision the create told."""
    created = pod_of(await world.core.creator.create(pod()))
    assert pod_of(await world.core.registry.get("Pod", "default", "web")) == created


async def test_a_second_object_of_the_same_name_is_refused(world: World) -> None:
    """ALREADY_EXISTS in Kubernetes' words."""
    await world.core.creator.create(pod())
    with pytest.raises(ApiError, match=r'^pods "web" already exists$') as refused:
        await world.core.creator.create(pod())
    assert refused.value.code is StatusCode.ALREADY_EXISTS


async def test_every_mistake_is_told_with_its_path(world: World) -> None:
    """Five mistakes, five violations, one message in Kubernetes' form."""
    item = pod()
    item.metadata.labels["bad key!"] = "x"
    item.spec.containers[0].resources.requests["cpu"] = "much"
    item.spec.containers[0].ports.add(container_port=99999)
    item.spec.containers.add(name="app", image="again")
    item.spec.restart_policy = "Sometimes"
    with pytest.raises(ApiError) as refused:
        await world.core.creator.create(item)
    error = refused.value
    assert error.code is StatusCode.INVALID_ARGUMENT
    fields = {violation.field for violation in error.violations}
    assert {
        "metadata.labels",
        "spec.containers[0].resources.requests[cpu]",
        "spec.containers[0].ports[0].containerPort",
        "spec.containers[1].name",
        "spec.restartPolicy",
    } <= fields
    assert error.message.startswith('Pod "web" is invalid: [')


async def test_an_object_of_a_kind_without_namespaces_takes_none(world: World) -> None:
    """A node in a namespace is a mistake."""
    item = node()
    item.metadata.namespace = "default"
    with pytest.raises(ApiError, match=r"metadata\.namespace") as refused:
        await world.core.creator.create(item)
    assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_a_batch_answers_each_item_by_itself(world: World) -> None:
    """The good are stored, the bad told, in their order."""
    bad = pod("bad")
    bad.spec.containers[0].image = ""
    outcomes = await world.core.creator.create_many([pod("a"), bad, pod("a"), pod("b")])
    assert isinstance(outcomes[0], Entry) and isinstance(outcomes[3], Entry)
    assert isinstance(outcomes[1], ApiError) and outcomes[1].code is StatusCode.INVALID_ARGUMENT
    assert isinstance(outcomes[2], ApiError) and outcomes[2].code is StatusCode.ALREADY_EXISTS


async def test_generated_names_differ(world: World) -> None:
    """Objects with generateName get names of their own."""
    items = []
    for _ in range(20):
        item = pod("")
        item.metadata.generate_name = "web-"
        items.append(item)
    outcomes = await world.core.creator.create_many(items)
    names = {message_of(o).metadata.name for o in outcomes if isinstance(o, Entry)}
    assert len(names) == 20
    assert all(name.startswith("web-") for name in names)


async def test_a_generated_name_that_is_taken_is_drawn_again() -> None:
    """Two equal draws end as two objects of different names and uids."""
    drawn = iter(())
    core = ServerCore(ServerSettings(), MemoryStore(), new_uid=lambda: next(drawn, "any"))
    await core.start()
    drawn = iter(["first", "first", "second"])
    created = []
    for _ in range(2):
        item = pod("")
        item.metadata.generate_name = "web-"
        created.append(pod_of(await core.creator.create(item)).metadata)
    await core.stop()
    assert [metadata.uid for metadata in created] == ["first", "second"]
    assert len({metadata.name for metadata in created}) == 2
    assert all(metadata.name.startswith("web-") for metadata in created)


async def test_a_long_search_for_free_addresses_lets_others_on_in_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each Service takes 0.7 of a round of the event loop, and all find the same address free."""
    now, seen = thread_time(), list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)

    def choose(count: int) -> int:
        nonlocal now
        now += 0.7 * ROUND
        seen.append("search")
        return 0

    async def others() -> None:
        while True:
            seen.append("other")
            await asyncio.sleep(0)

    monkeypatch.setattr(world.core.creator._addresses, "_choose", choose)
    waiting = asyncio.create_task(others())
    items = [Service(metadata={"name": f"s-{number}"}) for number in range(8)]
    for item in items:
        item.spec.ports.add(port=80)
    outcomes = await world.core.creator.create_many(items)
    waiting.cancel()
    assert all(isinstance(outcome, Entry) for outcome in outcomes)
    assert seen.count("search") > len(items)
    assert "search search search" not in " ".join(seen)


async def test_a_batch_asks_once_for_what_other_servers_have_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not once for each pod that names a class which does not exist."""
    asked: list[str] = []
    get = world.store.get

    async def counted(key: str, *, revision: int | None = None) -> GetResult:
        asked.append(key)
        return await get(key, revision=revision)

    monkeypatch.setattr(world.store, "get", counted)
    items = [pod(f"pod-{number}") for number in range(50)]
    for item in items:
        item.spec.priority_class_name = "none"
    outcomes = await world.core.creator.create_many(items)
    assert all("no PriorityClass" in str(outcome) for outcome in outcomes)
    assert len(asked) == 1


async def test_a_dry_run_stores_nothing(world: World) -> None:
    """It tells what would be stored, mistakes included."""
    assert pod_of(await world.core.creator.create(pod(), dry_run=True)).spec.scheduler_name
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_an_object_beyond_the_size_limit_is_refused(world: World) -> None:
    """RESOURCE_EXHAUSTED with the size and the limit."""
    item = node()
    item.status.conditions.add(type="Ready", message="x" * MAX_OBJECT_BYTES)
    with pytest.raises(ApiError, match=f"the limit is {MAX_OBJECT_BYTES}") as refused:
        await world.core.creator.create(item)
    assert refused.value.code is StatusCode.RESOURCE_EXHAUSTED


async def test_every_cluster_has_its_namespaces_and_system_priorities(world: World) -> None:
    """`default`, `kube-system` and the system-* classes exist from the start and stay."""
    for kind, name in (("Namespace", "default"), ("PriorityClass", "system-node-critical")):
        await world.core.registry.get(kind, "", name)
        with pytest.raises(ApiError) as refused:
            await world.core.deleter.delete(delete(kind, name))
        assert refused.value.code is StatusCode.PERMISSION_DENIED


async def test_a_budget_of_a_client_starts_without_status(world: World) -> None:
    """A status is the controller's to write."""
    item = budget("b", app="x")
    item.status.disruptions_allowed = 5
    stored = message_of(await world.core.creator.create(item))
    assert not stored.HasField("status")
