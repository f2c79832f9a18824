"""Reading and changing objects of any kind."""

from __future__ import annotations

import json

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.objects import Node, PodGroup
from podsched.api.reasons import StatusCode
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.store.errors import Unavailable
from podsched.serve.store.protocol import Put
from podsched.v1 import api_pb2 as v1
from support.api_objects import binding, node, pod
from support.api_world import World, message_of, pod_of


def delete(kind: str, name: str, **fields: object) -> v1.DeleteRequest:
    return v1.DeleteRequest(kind=kind, name=name, **fields)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- changing


async def test_an_update_on_an_old_resource_version_is_a_conflict(world: World) -> None:
    """ABORTED, and the newer state stays."""
    old = message_of(await world.core.creator.create(node()))
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
    item = message_of(await world.core.creator.create(node()))
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
    item = message_of(await world.core.creator.create(node()))
    assert isinstance(item, Node)
    item.status.allocatable["cpu"] = "64"
    item.metadata.labels["a"] = "1"
    updated = message_of(await world.core.registry.update(item, status=True))
    assert isinstance(updated, Node)
    assert updated.status.allocatable["cpu"] == "64"
    assert not updated.metadata.labels


async def test_an_update_without_a_resource_version_wins_over_a_lagging_cache(
    world: World,
) -> None:
    """Changed through another server a moment ago: computed again from the current state."""
    other = await world.another()
    created = message_of(await world.core.creator.create(node()))
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
    created = message_of(await world.core.creator.create(node()))
    again = await world.core.registry.update(created)
    assert str(again.revision) == created.metadata.resource_version


async def test_the_immutable_part_of_a_pod_stays(world: World) -> None:
    """A new image is allowed, a new node is not."""
    item = pod_of(await world.core.creator.create(pod()))
    item.spec.containers[0].image = "registry.example/app:2"
    item = pod_of(await world.core.registry.update(item))
    item.spec.node_name = "node-9"
    with pytest.raises(ApiError) as refused:
        await world.core.registry.update(item)
    assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_a_patch_changes_what_it_names(world: World) -> None:
    """RFC 7396: null removes, the rest stays; status belongs to the status."""
    await world.core.creator.create(node())
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


async def test_any_number_of_patches_of_one_object_succeed_by_one_call(world: World) -> None:
    """Each is applied to what the one before it made."""
    requests = [
        v1.PatchRequest(
            kind="Node",
            name="worker-1",
            merge_patch=json.dumps({"metadata": {"labels": {f"l{number}": ""}}}).encode(),
        )
        for number in range(20)
    ]
    outcomes = await world.core.registry.patch(requests, None)
    assert [str(o) for o in outcomes if isinstance(o, ApiError)] == []
    labels = message_of(await world.core.registry.get("Node", "", "worker-1")).metadata.labels
    assert {f"l{number}" for number in range(20)} <= set(labels)


async def test_a_patch_of_the_status_does_not_check_what_is_stored_already(world: World) -> None:
    """An older version may have stored what is refused by now."""
    item = PodGroup()
    item.metadata.namespace, item.metadata.name = "default", "job"
    item.spec.disruption_mode = "Sometimes"
    key = object_key(KINDS["PodGroup"], "default/job")
    await world.store.txn([], [Put(key, item.SerializeToString())])
    status = {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]}
    for patch, refused in (
        ({"status": status}, False),
        ({"status": status, "metadata": {"labels": {"a": "1"}}}, True),
    ):
        text = json.dumps(patch).encode()
        request = v1.PatchRequest(
            kind="PodGroup", namespace="default", name="job", merge_patch=text
        )
        outcome = (await world.core.registry.patch([request], None))[0]
        assert isinstance(outcome, ApiError) is refused


async def test_a_strategic_patch_merges_conditions_by_type(world: World) -> None:
    """The condition of another type stays; with a merge patch it would be gone."""
    item = node()
    item.status.conditions.add(type="Ready", status="True")
    await world.core.creator.create(item)
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
    assert [c.type for c in patched.status.conditions] == ["MemoryPressure", "Ready"]


@pytest.mark.parametrize("patch", [b"{", b"[]", b'{"spec": {"unschedulable": "perhaps"}}'])
async def test_a_bad_patch_is_refused(world: World, patch: bytes) -> None:
    """INVALID_ARGUMENT, nothing written."""
    await world.core.creator.create(node())
    request = v1.PatchRequest(kind="Node", name="node-1", merge_patch=patch)
    outcome = (await world.core.registry.patch([request], None))[0]
    assert isinstance(outcome, ApiError) and outcome.code is StatusCode.INVALID_ARGUMENT


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
    outcome = (await world.core.creator.create_many([pod()]))[0]
    assert isinstance(outcome, ApiError) and outcome.code is StatusCode.UNAVAILABLE
    world.store.fault = None
    await world.core.creator.create(pod())


# ---------------------------------------------------------------------------- dry runs


async def test_a_dry_run_of_any_change_answers_as_usual_and_stores_nothing(world: World) -> None:
    core = world.core
    before = await core.creator.create(pod("web"))
    label = v1.PatchRequest(
        kind="Pod", name="web", merge_patch=b'{"metadata":{"labels":{"a":"b"}}}'
    )
    (patched,) = await core.registry.patch([label], None, dry_run=True)
    assert isinstance(patched, Entry)
    assert patched.message.metadata.labels["a"] == "b"
    assert patched.revision == before.revision
    updated = before.decode()
    updated.metadata.annotations["c"] = "d"
    entry = await core.registry.update(updated, dry_run=True)
    assert entry.message.metadata.annotations["c"] == "d"
    await core.deleter.delete(v1.DeleteRequest(kind="Pod", name="web", dry_run=True))
    assert await core.deleter.delete_collection(
        v1.DeleteCollectionRequest(kind="Pod", dry_run=True)
    )
    (bound,) = await core.pods.bind([binding("web", "worker-1")], None, dry_run=True)
    assert isinstance(bound, Entry)
    (evicted,) = await core.pods.evict([v1.EvictRequest(name="web")], None, dry_run=True)
    assert isinstance(evicted, Entry)
    after = await core.registry.get("Pod", "", "web")
    assert (after.revision, after.value) == (before.revision, before.value)


async def test_a_dry_run_is_refused_for_what_the_write_would_be_refused_for(world: World) -> None:
    core = world.core
    await core.creator.create(pod("web"))
    outcomes = await core.creator.create_many([pod("web"), pod("Wrong"), pod("b")], dry_run=True)
    reasons = [o.reason if isinstance(o, ApiError) else "" for o in outcomes]
    assert reasons == ["ALREADY_EXISTS", "INVALID", ""]
    name = v1.PatchRequest(kind="Pod", name="web", merge_patch=b'{"metadata":{"name":"x"}}')
    none = v1.PatchRequest(kind="Pod", name="none", merge_patch=b"{}")
    outcomes = await core.registry.patch([name, none], None, dry_run=True)
    reasons = [o.reason if isinstance(o, ApiError) else "" for o in outcomes]
    assert reasons == ["INVALID", "NOT_FOUND"]
    old = await world.new_term()
    await world.new_term()
    (late,) = await core.registry.patch([name], old, dry_run=True)
    assert isinstance(late, ApiError)
    assert late.reason == "FENCE_LOST"


async def test_a_pod_with_label_keys_can_be_applied_again(world: World) -> None:
    """What its manifest leaves out of the selectors was added when it was created."""
    item = pod(app="web", version="7")
    constraint = item.spec.topology_spread_constraints.add(max_skew=1, topology_key="zone")
    constraint.when_unsatisfiable = "DoNotSchedule"
    constraint.label_selector.match_labels["app"] = "web"
    constraint.match_label_keys.append("version")
    spread = to_manifest(item)["spec"]["topologySpreadConstraints"]
    await world.core.creator.create(item)
    patch = {"metadata": {"labels": {"more": "1"}}, "spec": {"topologySpreadConstraints": spread}}
    request = v1.PatchRequest(
        kind="Pod", namespace="default", name="web", merge_patch=json.dumps(patch).encode()
    )
    outcome = (await world.core.registry.patch([request], None))[0]
    assert isinstance(outcome, Entry)
    (kept,) = pod_of(outcome).spec.topology_spread_constraints
    assert [found.key for found in kept.label_selector.match_expressions] == ["version"]


async def test_a_label_key_for_which_a_pod_gets_another_label_keeps_its_selector(
    world: World,
) -> None:
    """Its spec can still be updated: gates can be removed, for example."""
    item = pod(app="web")
    item.spec.scheduling_gates.add(name="wait")
    constraint = item.spec.topology_spread_constraints.add(max_skew=1, topology_key="zone")
    constraint.when_unsatisfiable = "DoNotSchedule"
    constraint.label_selector.match_labels["app"] = "web"
    constraint.match_label_keys.append("version")
    await world.core.creator.create(item)
    for patch in ({"metadata": {"labels": {"version": "8"}}}, {"spec": {"schedulingGates": None}}):
        request = v1.PatchRequest(
            kind="Pod", namespace="default", name="web", merge_patch=json.dumps(patch).encode()
        )
        outcome = (await world.core.registry.patch([request], None))[0]
        assert isinstance(outcome, Entry)
    updated = pod_of(outcome).spec
    assert not updated.scheduling_gates
    assert not updated.topology_spread_constraints[0].label_selector.match_expressions
