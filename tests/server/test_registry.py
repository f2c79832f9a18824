"""Creating, changing and deleting objects of any kind."""

from __future__ import annotations

import json

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Event, Node, Pod
from podsched.api.reasons import StatusCode
from podsched.server.core import ServerCore
from podsched.server.entries import Entry
from podsched.server.errors import ApiError
from podsched.server.settings import ServerSettings
from podsched.store.errors import Unavailable
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import budget, event, node, pod, priority_class
from support.api_world import World


def message_of(entry: Entry) -> AnyObject:
    message = entry.decode()
    message.metadata.resource_version = str(entry.revision)
    return message


def pod_of(entry: Entry) -> Pod:
    message = message_of(entry)
    assert isinstance(message, Pod)
    return message


def delete(kind: str, name: str, **fields: object) -> v1.DeleteRequest:
    return v1.DeleteRequest(kind=kind, name=name, **fields)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- creating


async def test_a_new_pod_is_complete(world: World) -> None:
    """Defaults, uid, creation time and generation are filled in; the status is a new pod's."""
    item = pod()
    item.status.phase = "Running"
    created = pod_of(await world.core.registry.create(item))
    assert created.metadata.uid
    assert created.metadata.generation == 1
    assert created.metadata.creation_timestamp.seconds == int(world.now)
    assert created.spec.scheduler_name == "default-scheduler"
    assert created.spec.termination_grace_period_seconds == 30
    assert created.spec.priority == 0
    assert created.status.phase == "Pending"


async def test_a_created_object_is_there_at_once(world: World) -> None:
    """A get after the create sees it, with the revision the create told."""
    created = pod_of(await world.core.registry.create(pod()))
    assert pod_of(await world.core.registry.get("Pod", "default", "web")) == created


async def test_a_second_object_of_the_same_name_is_refused(world: World) -> None:
    """ALREADY_EXISTS in Kubernetes' words."""
    await world.core.registry.create(pod())
    with pytest.raises(ApiError, match=r'^pods "web" already exists$') as refused:
        await world.core.registry.create(pod())
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
        await world.core.registry.create(item)
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
        await world.core.registry.create(item)
    assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_a_batch_answers_each_item_by_itself(world: World) -> None:
    """The good are stored, the bad told, in their order."""
    bad = pod("bad")
    bad.spec.containers[0].image = ""
    outcomes = await world.core.registry.create_many([pod("a"), bad, pod("a"), pod("b")])
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
    outcomes = await world.core.registry.create_many(items)
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
        created.append(pod_of(await core.registry.create(item)).metadata)
    await core.stop()
    assert [metadata.uid for metadata in created] == ["first", "second"]
    assert len({metadata.name for metadata in created}) == 2
    assert all(metadata.name.startswith("web-") for metadata in created)


async def test_a_dry_run_stores_nothing(world: World) -> None:
    """It tells what would be stored, mistakes included."""
    assert pod_of(await world.core.registry.create(pod(), dry_run=True)).spec.scheduler_name
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_an_object_beyond_the_size_limit_is_refused() -> None:
    """RESOURCE_EXHAUSTED with the size and the limit."""
    core = ServerCore(ServerSettings(max_object_bytes=5000), MemoryStore())
    await core.start()
    item = pod()
    item.metadata.annotations["big"] = "x" * 6000
    with pytest.raises(ApiError, match="the limit is 5000") as refused:
        await core.registry.create(item)
    assert refused.value.code is StatusCode.RESOURCE_EXHAUSTED
    await core.stop()


async def test_every_cluster_has_its_namespaces_and_system_priorities(world: World) -> None:
    """`default`, `kube-system` and the system-* classes exist from the start and stay."""
    for kind, name in (("Namespace", "default"), ("PriorityClass", "system-node-critical")):
        await world.core.registry.get(kind, "", name)
        with pytest.raises(ApiError) as refused:
            await world.core.registry.delete(delete(kind, name))
        assert refused.value.code is StatusCode.PERMISSION_DENIED


# ---------------------------------------------------------------------------- priorities


async def test_a_pod_gets_the_priority_of_its_class(world: World) -> None:
    """Also when the class was created through another server just now."""
    other = await world.another()
    await other.registry.create(priority_class("high", 1000))
    item = pod()
    item.spec.priority_class_name = "high"
    assert pod_of(await world.core.registry.create(item)).spec.priority == 1000


async def test_a_pod_without_a_class_gets_the_global_default(world: World) -> None:
    """And its name."""
    await world.core.registry.create(priority_class("usual", 7, default=True))
    await world.core.feed.fresh()
    spec = pod_of(await world.core.registry.create(pod())).spec
    assert (spec.priority, spec.priority_class_name) == (7, "usual")


async def test_an_unknown_priority_class_is_refused(world: World) -> None:
    """With the path of the field."""
    item = pod()
    item.spec.priority_class_name = "nope"
    with pytest.raises(ApiError, match="no PriorityClass with name nope was found"):
        await world.core.registry.create(item)


# ---------------------------------------------------------------------------- changing


async def test_an_update_on_an_old_resource_version_is_a_conflict(world: World) -> None:
    """ABORTED, and the newer state stays."""
    old = message_of(await world.core.registry.create(node()))
    newer = message_of(await world.core.registry.get("Node", "", "node-1"))
    newer.metadata.labels["a"] = "1"
    await world.core.registry.update(newer)
    old.metadata.labels["a"] = "2"
    with pytest.raises(ApiError, match="the object has been modified") as refused:
        await world.core.registry.update(old)
    assert refused.value.code is StatusCode.ABORTED
    stored = message_of(await world.core.registry.get("Node", "", "node-1"))
    assert stored.metadata.labels["a"] == "1"


async def test_an_update_keeps_the_status_and_counts_generations(world: World) -> None:
    """The spec moves the generation, labels do not; the status is another call's."""
    item = message_of(await world.core.registry.create(node()))
    assert isinstance(item, Node)
    item.status.allocatable["cpu"] = "64"
    item.metadata.labels["a"] = "1"
    labelled = message_of(await world.core.registry.update(item))
    assert isinstance(labelled, Node)
    assert labelled.status.allocatable["cpu"] == "4"
    assert labelled.metadata.generation == 1
    labelled.spec.unschedulable = True
    assert message_of(await world.core.registry.update(labelled)).metadata.generation == 2


async def test_a_status_update_changes_the_status_alone(world: World) -> None:
    """Labels sent along are not taken."""
    item = message_of(await world.core.registry.create(node()))
    assert isinstance(item, Node)
    item.status.allocatable["cpu"] = "64"
    item.metadata.labels["a"] = "1"
    updated = message_of(await world.core.registry.update_status(item))
    assert isinstance(updated, Node)
    assert updated.status.allocatable["cpu"] == "64"
    assert not updated.metadata.labels


async def test_an_update_without_a_resource_version_wins_over_a_lagging_cache(
    world: World,
) -> None:
    """Changed through another server a moment ago: computed again from the current state."""
    other = await world.another()
    created = message_of(await world.core.registry.create(node()))
    created.metadata.labels["a"] = "1"
    created.metadata.resource_version = ""
    await other.registry.update(created)
    created.metadata.labels["b"] = "2"
    updated = message_of(await world.core.registry.update(created))
    assert dict(updated.metadata.labels) == {"a": "1", "b": "2"}


async def test_an_update_of_what_does_not_exist_is_not_found(world: World) -> None:
    """It creates nothing."""
    with pytest.raises(ApiError, match='pods "web" not found'):
        await world.core.registry.update(pod())


async def test_an_equal_update_writes_nothing(world: World) -> None:
    """The revision stays."""
    created = message_of(await world.core.registry.create(node()))
    again = await world.core.registry.update(created)
    assert str(again.revision) == created.metadata.resource_version


async def test_the_immutable_part_of_a_pod_stays(world: World) -> None:
    """A new image is allowed, a new node is not."""
    item = pod_of(await world.core.registry.create(pod()))
    item.spec.containers[0].image = "registry.example/app:2"
    item = pod_of(await world.core.registry.update(item))
    item.spec.node_name = "node-9"
    with pytest.raises(ApiError) as refused:
        await world.core.registry.update(item)
    assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_a_patch_changes_what_it_names(world: World) -> None:
    """RFC 7396: null removes, the rest stays; status belongs to the status."""
    await world.core.registry.create(node())
    patch = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "8"}},
    }
    request = v1.PatchRequest(kind="Node", name="node-1", merge_patch=json.dumps(patch).encode())
    outcome = (await world.core.registry.patch([request], None))[0]
    assert isinstance(outcome, Entry)
    patched = message_of(outcome)
    assert isinstance(patched, Node)
    assert patched.metadata.labels["a"] == "1"
    assert patched.spec.unschedulable
    assert dict(patched.status.allocatable) == {"cpu": "8", "memory": "32Gi", "pods": "110"}


async def test_a_strategic_patch_merges_conditions_by_type(world: World) -> None:
    """The condition of another type stays; with a merge patch it would be gone."""
    item = node()
    item.status.conditions.add(type="Ready", status="True")
    await world.core.registry.create(item)
    patch = {"status": {"conditions": [{"type": "MemoryPressure", "status": "True"}]}}
    request = v1.PatchRequest(
        kind="Node",
        name="node-1",
        merge_patch=json.dumps(patch).encode(),
        type=v1.STRATEGIC_MERGE_PATCH,
    )
    outcome = (await world.core.registry.patch([request], None))[0]
    assert isinstance(outcome, Entry)
    patched = message_of(outcome)
    assert isinstance(patched, Node)
    assert [c.type for c in patched.status.conditions] == ["Ready", "MemoryPressure"]


@pytest.mark.parametrize("patch", [b"{", b"[]", b'{"spec": {"unschedulable": "perhaps"}}'])
async def test_a_bad_patch_is_refused(world: World, patch: bytes) -> None:
    """INVALID_ARGUMENT, nothing written."""
    await world.core.registry.create(node())
    request = v1.PatchRequest(kind="Node", name="node-1", merge_patch=patch)
    outcome = (await world.core.registry.patch([request], None))[0]
    assert isinstance(outcome, ApiError) and outcome.code is StatusCode.INVALID_ARGUMENT


# ---------------------------------------------------------------------------- deleting


async def bound_pod(world: World, name: str = "web") -> Pod:
    item = pod(name)
    item.spec.node_name = "node-1"
    return pod_of(await world.core.registry.create(item))


async def test_an_unbound_pod_is_removed_at_once(world: World) -> None:
    """Whatever its grace period."""
    await world.core.registry.create(pod())
    await world.core.registry.delete(delete("Pod", "web"))
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_a_bound_pod_is_marked_and_given_its_grace_period(world: World) -> None:
    """deletionTimestamp is when it ends; it stays until deleted with grace 0."""
    await bound_pod(world)
    marked = pod_of(await world.core.registry.delete(delete("Pod", "web")))
    assert marked.metadata.deletion_timestamp.seconds == int(world.now) + 30
    assert marked.metadata.deletion_grace_period_seconds == 30
    await world.core.registry.get("Pod", "", "web")
    await world.core.registry.delete(delete("Pod", "web", grace_period_seconds=0))
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_a_second_deletion_may_shorten_and_not_lengthen(world: World) -> None:
    """5 s shorten 30 s; 60 s do not lengthen 5 s."""
    await bound_pod(world)
    registry = world.core.registry
    await registry.delete(delete("Pod", "web"))
    world.now += 2
    shorter = pod_of(await registry.delete(delete("Pod", "web", grace_period_seconds=5)))
    assert shorter.metadata.deletion_timestamp.seconds == int(world.now) - 2 + 5
    same = pod_of(await registry.delete(delete("Pod", "web", grace_period_seconds=60)))
    assert same == shorter


async def test_finalizers_hold_an_object_until_the_last_is_gone(world: World) -> None:
    """Marked by the deletion, removed by the update that takes the last finalizer."""
    item = node()
    item.metadata.finalizers.append("example.com/hold")
    await world.core.registry.create(item)
    marked = message_of(await world.core.registry.delete(delete("Node", "node-1")))
    assert marked.metadata.HasField("deletion_timestamp")
    del marked.metadata.finalizers[:]
    await world.core.registry.update(marked)
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Node", "", "node-1")


async def test_a_deletion_of_another_incarnation_is_refused(world: World) -> None:
    """uid and resourceVersion are preconditions."""
    await world.core.registry.create(pod())
    for wanted in (v1.Preconditions(uid="other"), v1.Preconditions(resource_version=1)):
        with pytest.raises(ApiError, match="Precondition failed") as refused:
            await world.core.registry.delete(delete("Pod", "web", preconditions=wanted))
        assert refused.value.code is StatusCode.ABORTED


async def test_a_collection_is_deleted_by_selector(world: World) -> None:
    """What does not match stays."""
    await world.core.registry.create_many([pod("a", app="x"), pod("b", app="x"), pod("c")])
    request = v1.DeleteCollectionRequest(kind="Pod", label_selector="app=x")
    assert await world.core.registry.delete_collection(request) == 2
    await world.core.registry.get("Pod", "", "c")


# ---------------------------------------------------------------------------- faults and bounds


@pytest.mark.parametrize(
    ("kind", "name", "field"), [("Pad", "x", "kind"), ("", "x", "kind"), ("Pod", "", "name")]
)
async def test_what_is_not_named_rightly_is_refused(
    world: World, kind: str, name: str, field: str
) -> None:
    """An unknown kind and a missing name are INVALID_ARGUMENT with the field."""
    with pytest.raises(ApiError) as refused:
        await world.core.registry.get(kind, "", name)
    assert refused.value.code is StatusCode.INVALID_ARGUMENT
    assert refused.value.violations[0].field == field


async def test_an_outage_of_the_store_is_unavailable(world: World) -> None:
    """For reads, writes and each item of a batch; afterwards all is well."""
    world.store.fault = Unavailable("down")
    with pytest.raises(ApiError) as refused:
        await world.core.registry.get("Pod", "", "web")
    assert refused.value.code is StatusCode.UNAVAILABLE
    outcome = (await world.core.registry.create_many([pod()]))[0]
    assert isinstance(outcome, ApiError) and outcome.code is StatusCode.UNAVAILABLE
    world.store.fault = None
    await world.core.registry.create(pod())


async def test_events_expire(world: World) -> None:
    """Event objects hang on an etcd lease."""
    await world.core.registry.create(event("e1"))
    kv = (await world.store.get(object_key(KINDS["Event"], "default/e1"))).kv
    assert kv is not None and kv.lease


async def test_a_lost_event_lease_is_replaced(world: World) -> None:
    """The lease shared by events has ended early: the next event gets a new one."""
    await world.core.registry.create(event("e1"))
    kv = (await world.store.get(object_key(KINDS["Event"], "default/e1"))).kv
    assert kv is not None
    await world.store.lease_revoke(kv.lease)
    await world.core.registry.create(event("e2"))


async def test_the_oldest_events_make_room() -> None:
    """The number of events is bounded, and the newest stay."""
    core = ServerCore(ServerSettings(max_events=10), MemoryStore())
    await core.start()
    for number in range(30):
        created = await core.registry.create(event(f"e{number}"))
        assert isinstance(message_of(created), Event)
        await core.feed.fresh()
    names = set(core.cache.objects(created.kind))
    assert len(names) <= 10
    assert "default/e29" in names
    await core.stop()


async def test_a_budget_of_a_client_starts_without_status(world: World) -> None:
    """A status is the controller's to write."""
    item = budget("b", app="x")
    item.status.disruptions_allowed = 5
    stored = message_of(await world.core.registry.create(item))
    assert not stored.HasField("status")
