"""Bindings of schedulers side by side, and to nodes that go: decided in the write itself."""

from __future__ import annotations

import asyncio

from podsched.api.etcd_keys import BOUND, SCHEDULERS, object_key, term_key
from podsched.api.kinds import KINDS
from podsched.serve.server.bind_guard import UNLOCKED
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.store.protocol import Delete, Put
from podsched.v1 import api_pb2 as v1
from podsched.v1.api_pb2 import Fence
from support.api_objects import LOCK, node, pod
from support.api_world import World

OTHER = "kube-system/batch"
_NODE, _POD = KINDS["Node"], KINDS["Pod"]


async def new_term(world: World, lock: str) -> Fence:
    result = await world.store.txn([], [Put(term_key(lock), b"me")])
    return Fence(lock=lock, term=result.revision)


async def revision(world: World) -> int:
    return (await world.store.get(SCHEDULERS)).revision


async def bind(
    world: World,
    fence: Fence | None,
    name: str,
    node: str,
    seen: int,
    core: ServerCore | None = None,
) -> str:
    """Bind a new pod as decided at the revision ``seen``; return "bound" or the reason."""
    await world.core.creator.create(pod(name))
    request = v1.Binding(namespace="default", name=name, node_name=node, revision=seen)
    (outcome,) = await (core or world.core).pods.bind([request], fence)
    return outcome.reason if isinstance(outcome, ApiError) else "bound"


async def side_by_side(world: World) -> tuple[Fence, Fence]:
    """Two leaders of two locks, each known to bind."""
    first, second = await new_term(world, LOCK), await new_term(world, OTHER)
    assert await bind(world, first, "first", "worker-1", await revision(world)) == "bound"
    await bind(world, second, "second", "worker-1", await revision(world))
    return first, second


async def test_a_scheduler_alone_puts_no_key_of_a_node(world: World) -> None:
    fence = await new_term(world, LOCK)
    seen = await revision(world)
    for name in "abc":
        assert await bind(world, fence, name, "worker-1", seen + 1) == "bound"
    listed = (await world.store.get(SCHEDULERS)).kv
    assert listed is not None and listed.value.decode() == LOCK
    assert not (await world.store.range(BOUND)).kvs


async def test_a_dry_run_enters_no_scheduler(world: World) -> None:
    """Others would have to decide again what they have decided."""
    fence = await new_term(world, LOCK)
    await world.core.creator.create(pod("a"))
    request = v1.Binding(namespace="default", name="a", node_name="worker-1")
    (outcome,) = await world.core.pods.bind([request], fence, dry_run=True)
    assert isinstance(outcome, Entry)
    assert (await world.store.get(SCHEDULERS)).kv is None


async def test_of_two_that_decide_on_the_same_state_one_binds_to_a_node(world: World) -> None:
    """The other is told what it has to have seen before it decides again."""
    first, second = await side_by_side(world)
    seen = await revision(world)
    assert await bind(world, first, "a", "worker-1", seen) == "bound"
    await world.core.creator.create(pod("b"))
    request = v1.Binding(namespace="default", name="b", node_name="worker-1", revision=seen)
    (refused,) = await world.core.pods.bind([request], second)
    assert isinstance(refused, ApiError) and refused.reason == "CONFLICT"
    assert LOCK in refused.message
    request.revision = int(refused.metadata["revision"])
    (bound,) = await world.core.pods.bind([request], second)
    assert isinstance(bound, Entry)


async def test_bindings_to_other_nodes_and_ones_own_are_no_conflict(world: World) -> None:
    first, second = await side_by_side(world)
    seen = await revision(world)
    assert await bind(world, first, "a", "worker-1", seen) == "bound"
    assert await bind(world, first, "b", "worker-1", seen) == "bound"
    assert await bind(world, second, "c", "worker-2", seen) == "bound"


async def test_who_enters_the_list_decides_again_what_it_decided_before(world: World) -> None:
    """It has not seen what the others bound while they were alone."""
    first, second = await new_term(world, LOCK), await new_term(world, OTHER)
    assert await bind(world, first, "a", "worker-1", await revision(world)) == "bound"
    seen = await revision(world)
    assert await bind(world, first, "b", "worker-1", seen) == "bound"
    assert await bind(world, second, "c", "worker-1", seen) == "CONFLICT"
    assert await bind(world, second, "d", "worker-1", await revision(world)) == "bound"


async def test_a_server_that_does_not_know_of_the_second_scheduler_meets_it(world: World) -> None:
    """Its list is compared in the write: a decision from before is refused there, too."""
    first = await new_term(world, LOCK)
    other = await world.another()
    assert await bind(world, first, "a", "worker-1", 0, other) == "bound"
    seen = await revision(world)
    second = await new_term(world, OTHER)
    assert await bind(world, second, "b", "worker-1", 0) == "bound"
    assert await bind(world, first, "c", "worker-1", seen, other) == "CONFLICT"
    assert await bind(world, first, "d", "worker-1", await revision(world), other) == "bound"
    seen = await revision(world)
    assert await bind(world, first, "e", "worker-1", seen, other) == "bound"
    assert await bind(world, second, "f", "worker-1", seen) == "CONFLICT"


async def test_a_lost_fence_enters_nothing_and_is_told_so(world: World) -> None:
    fence = await new_term(world, LOCK)
    await new_term(world, LOCK)
    assert await bind(world, fence, "a", "worker-1", await revision(world)) == "FENCE_LOST"
    assert (await world.store.get(SCHEDULERS)).kv is None


async def test_a_lock_without_a_holder_leaves_the_list_when_another_enters(world: World) -> None:
    """What its holder decided before is refused when it is back."""
    first, _ = await side_by_side(world)
    await world.store.txn([], [Delete(term_key(OTHER))])
    third = await new_term(world, "kube-system/third")
    assert await bind(world, third, "a", "worker-2", 0) == "bound"
    listed = (await world.store.get(SCHEDULERS)).kv
    assert listed is not None and listed.value.decode().split() == [LOCK, third.lock]
    seen = await revision(world)
    again = await new_term(world, OTHER)
    assert await bind(world, first, "b", "worker-1", seen) == "bound"
    assert await bind(world, again, "c", "worker-1", seen) == "CONFLICT"


async def test_a_lock_that_left_the_list_enters_it_before_it_binds_through_any_server(
    world: World,
) -> None:
    """Another server may still know it from before. Else two bindings would not notice another."""
    other = await world.another()
    first = await new_term(world, LOCK)
    assert await bind(world, first, "a", "worker-2", 0, other) == "bound"
    await world.store.txn([], [Delete(term_key(LOCK))])
    second = await new_term(world, OTHER)
    assert await bind(world, second, "b", "worker-2", 0) == "bound"
    again = await new_term(world, LOCK)
    seen = await revision(world)
    assert await bind(world, again, "c", "worker-1", seen, other) == "CONFLICT"
    assert await bind(world, again, "d", "worker-1", seen, other) == "CONFLICT", "it enters"
    assert await bind(world, again, "e", "worker-1", await revision(world), other) == "bound"
    assert await bind(world, second, "f", "worker-1", seen) == "CONFLICT"


async def test_a_binding_with_a_negative_revision_is_invalid(
    world: World,
) -> None:
    first, _ = await side_by_side(world)
    assert await bind(world, first, "a", "worker-1", -10_000) == "INVALID"


async def test_nothing_is_left_of_a_node_that_is_deleted(world: World) -> None:
    first, _ = await side_by_side(world)
    assert await bind(world, first, "a", "worker-1", await revision(world)) == "bound"
    assert (await world.store.range(BOUND)).kvs
    await world.core.deleter.delete(v1.DeleteRequest(kind="Node", name="worker-1"))
    assert not (await world.store.range(BOUND)).kvs


async def test_nothing_is_left_of_a_node_deleted_through_a_server_that_bound_nothing(
    world: World,
) -> None:
    first, _ = await side_by_side(world)
    assert await bind(world, first, "a", "worker-1", await revision(world)) == "bound"
    assert (await world.store.range(BOUND)).kvs
    other = await world.another()
    await other.deleter.delete(v1.DeleteRequest(kind="Node", name="worker-1"))
    assert not (await world.store.range(BOUND)).kvs


async def test_nothing_is_left_of_a_node_that_loses_its_last_finalizer(world: World) -> None:
    held = node("held")
    held.metadata.finalizers.append("example.com/drain")
    await world.core.creator.create(held)
    first, _ = await side_by_side(world)
    assert await bind(world, first, "a", "held", await revision(world)) == "bound"
    assert (await world.store.range(BOUND)).kvs
    await world.core.deleter.delete(v1.DeleteRequest(kind="Node", name="held"))
    patch = b'{"metadata": {"finalizers": null}}'
    request = v1.PatchRequest(kind="Node", name="held", merge_patch=patch)
    await world.core.registry.patch([request], None)
    assert not (await world.store.range(BOUND)).kvs


async def test_what_was_decided_about_a_node_that_was_created_again_is_refused(
    world: World,
) -> None:
    """The pods that others have bound to it may still be there."""
    first, second = await side_by_side(world)
    seen = await revision(world)
    assert await bind(world, first, "a", "worker-1", seen) == "bound"
    await world.core.deleter.delete(v1.DeleteRequest(kind="Node", name="worker-1"))
    await world.core.creator.create(node("worker-1"))
    assert await bind(world, second, "b", "worker-1", seen) == "CONFLICT"
    assert await bind(world, second, "c", "worker-1", await revision(world)) == "bound"


async def test_a_node_deleted_through_another_server_gets_no_pod(world: World) -> None:
    """The write itself compares that it exists, however far the cache lags."""
    fence = await new_term(world, LOCK)
    other = await world.another()
    await other.stop()  # its cache stands still
    await world.core.deleter.delete(v1.DeleteRequest(kind="Node", name="worker-1"))
    assert other.cache.get(_NODE, "worker-1") is not None
    assert await bind(world, fence, "a", "worker-1", 0, other) == "NOT_FOUND"
    assert await bind(world, None, "b", "worker-1", 0, other) == "NOT_FOUND"


async def test_two_racing_for_one_node_never_take_more_than_its_room(world: World) -> None:
    """Each binds only as far as what it has seen leaves room, and looks again when refused."""
    fences = await side_by_side(world)
    other = await world.another()
    room = 20

    async def schedule(fence: Fence, core: ServerCore, prefix: str) -> int:
        bound = 0
        for number in range(room):
            name = f"{prefix}{number}"
            await core.creator.create(pod(name))
            while True:
                seen = await revision(world)
                await core.cache.progress.wait_for(seen)
                pods = [entry.decode() for entry in core.cache.objects(_POD).values()]
                if sum(p.spec.node_name == "worker-2" for p in pods) >= room:  # type: ignore[union-attr]
                    return bound
                await asyncio.sleep(0)
                request = v1.Binding(
                    namespace="default", name=name, node_name="worker-2", revision=seen
                )
                (outcome,) = await core.pods.bind([request], fence)
                if isinstance(outcome, Entry):
                    bound += 1
                    break
        return bound

    shares = await asyncio.gather(
        schedule(fences[0], world.core, "x"), schedule(fences[1], other, "y")
    )
    assert sum(shares) == room


async def bind_as_kubernetes(world: World, name: str, node: str) -> None:
    """Bind a new pod without a lock, as schedulers do over Kubernetes' API."""
    await world.core.creator.create(pod(name))
    request = v1.Binding(namespace="default", name=name, node_name=node)
    await world.core.pods.bind_like_kubernetes(request, {})


async def test_a_leader_notices_what_was_bound_without_a_lock(world: World) -> None:
    """What it decided before that for this node is refused; other nodes are its own."""
    fence = await new_term(world, LOCK)
    assert await bind(world, fence, "a", "worker-1", await revision(world)) == "bound"
    seen = await revision(world)
    await bind_as_kubernetes(world, "theirs", "worker-1")
    assert await bind(world, fence, "b", "worker-2", seen) == "CONFLICT", "it was alone till now"
    seen = await revision(world)
    await bind_as_kubernetes(world, "more-of-theirs", "worker-1")
    assert await bind(world, fence, "c", "worker-1", seen) == "CONFLICT"
    assert await bind(world, fence, "d", "worker-2", seen) == "bound"
    assert await bind(world, fence, "e", "worker-1", await revision(world)) == "bound"


async def test_what_was_bound_without_a_lock_to_a_node_just_created_is_noticed(
    world: World,
) -> None:
    """The API server that binds it may not know the node yet."""
    fence = await new_term(world, LOCK)
    await bind_as_kubernetes(world, "theirs", "worker-1")
    await bind(world, fence, "a", "worker-1", await revision(world))
    await world.core.creator.create(pod("more-of-theirs"))
    known = (await world.store.get(object_key(_NODE, "worker-1"))).kv
    assert known is not None
    key = object_key(_NODE, "worker-3")
    value = known.value.replace(b"worker-1", b"worker-3")
    seen = (await world.store.txn([], [Put(key, value)])).revision
    assert world.core.cache.get(_NODE, "worker-3") is None
    request = v1.Binding(namespace="default", name="more-of-theirs", node_name="worker-3")
    await world.core.pods.bind_like_kubernetes(request, {})
    assert await bind(world, fence, "b", "worker-3", seen) == "CONFLICT"


async def test_who_binds_without_a_lock_is_noticed_for_good(world: World) -> None:
    """Other locks leave the list when they have no holder."""
    await bind_as_kubernetes(world, "theirs", "worker-1")
    for lock in (LOCK, OTHER):
        assert await bind(world, await new_term(world, lock), lock[-3:], "worker-1", 0) == "bound"
        await world.store.txn([], [Delete(term_key(lock))])
    listed = (await world.store.get(SCHEDULERS)).kv
    assert listed is not None and listed.value.decode().split() == [UNLOCKED, OTHER]


async def test_without_a_leader_bindings_of_others_are_not_recorded(world: World) -> None:
    await bind_as_kubernetes(world, "a", "worker-1")
    await bind_as_kubernetes(world, "b", "nowhere")
    assert not (await world.store.range(BOUND)).kvs
