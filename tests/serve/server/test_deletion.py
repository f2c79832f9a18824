"""Deletions: propagation policies, and batches."""

from __future__ import annotations

import pytest

from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World, message_of, pod_of


def delete(name: str, policy: str = "", **fields: object) -> v1.DeleteRequest:
    return v1.DeleteRequest(kind="Pod", name=name, propagation_policy=policy, **fields)  # type: ignore[arg-type]


async def deleted(world: World, policy: str, *finalizers: str) -> AnyObject:
    item = pod()
    item.metadata.finalizers.extend(finalizers)
    await world.core.creator.create(item)
    return message_of(await world.core.deleter.delete(delete("web", policy)))


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_a_policy_is_a_finalizer_for_the_garbage_collector(
    world: World, policy: str, finalizer: str
) -> None:
    marked = await deleted(world, policy)
    assert marked.metadata.HasField("deletion_timestamp")
    assert list(marked.metadata.finalizers) == [finalizer]
    del marked.metadata.finalizers[:]
    await world.core.registry.update(marked)
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


@pytest.mark.parametrize("policy", ["", "Background"])
async def test_in_the_background_the_owner_goes_at_once(world: World, policy: str) -> None:
    await deleted(world, policy)
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_a_second_deletion_may_change_the_policy(world: World) -> None:
    await deleted(world, "Foreground", "example.com/hold")
    again = message_of(await world.core.deleter.delete(delete("web", "Orphan")))
    assert list(again.metadata.finalizers) == ["example.com/hold", "orphan"]
    kept = message_of(await world.core.deleter.delete(delete("web")))
    assert kept == again


async def test_a_second_deletion_in_the_background_ends_it(world: World) -> None:
    await deleted(world, "Foreground")
    await world.core.deleter.delete(delete("web", "Background"))
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "web")


async def test_the_grace_period_of_a_pod_counts_beside_the_policy(world: World) -> None:
    item = pod()
    item.spec.node_name = "worker-1"
    await world.core.creator.create(item)
    marked = pod_of(await world.core.deleter.delete(delete("web", "Foreground")))
    assert marked.metadata.deletion_grace_period_seconds == 30
    ended = pod_of(await world.core.deleter.delete(delete("web", grace_period_seconds=0)))
    assert list(ended.metadata.finalizers) == ["foregroundDeletion"]
    assert ended.metadata.deletion_grace_period_seconds == 0


async def test_a_period_that_is_shortened_too_late_ends_at_once(world: World) -> None:
    """As in BeforeDelete of Kubernetes: a time in the past would tell of a stuck pod."""
    item = pod()
    item.spec.node_name = "worker-1"
    await world.core.creator.create(item)
    await world.core.deleter.delete(delete("web"))
    world.now += 20
    marked = pod_of(await world.core.deleter.delete(delete("web", grace_period_seconds=5)))
    assert marked.metadata.deletion_timestamp.seconds == world.now
    assert marked.metadata.deletion_grace_period_seconds == 1


async def test_a_second_deletion_within_the_grace_period_changes_no_finalizer(
    world: World,
) -> None:
    item = pod()
    item.spec.node_name = "worker-1"
    await world.core.creator.create(item)
    marked = pod_of(await world.core.deleter.delete(delete("web")))
    assert pod_of(await world.core.deleter.delete(delete("web", "Foreground"))) == marked


async def test_another_policy_is_a_mistake(world: World) -> None:
    await world.core.creator.create(pod())
    with pytest.raises(ApiError) as refused:
        await world.core.deleter.delete(delete("web", "Later"))
    assert refused.value.code is StatusCode.INVALID_ARGUMENT
    assert refused.value.message == (
        'propagationPolicy: Unsupported value: "Later": supported values: '
        '"Background", "Foreground", "Orphan"'
    )


async def test_of_a_batch_each_succeeds_or_fails_by_itself(world: World) -> None:
    await world.core.creator.create_many([pod("a"), pod("b")])
    requests = [delete("a"), delete("missing"), delete("b", "Later"), delete("b")]
    outcomes = await world.core.deleter.delete_many(requests)
    assert [isinstance(outcome, Entry) for outcome in outcomes] == [True, False, False, True]
    assert isinstance(outcomes[1], ApiError) and outcomes[1].code is StatusCode.NOT_FOUND
    with pytest.raises(ApiError, match="not found"):
        await world.core.registry.get("Pod", "", "b")


async def test_a_batch_of_a_leader_whose_term_is_over_deletes_nothing(world: World) -> None:
    old = await world.new_term()
    await world.new_term()
    await world.core.creator.create(pod("a"))
    outcomes = await world.core.deleter.delete_many([delete("a")], old)
    assert isinstance(outcomes[0], ApiError) and outcomes[0].reason == "FENCE_LOST"
    await world.core.registry.get("Pod", "", "a")
