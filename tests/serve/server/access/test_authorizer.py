"""Who may do what, by the roles in the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ClusterRole
from podsched.api.reasons import StatusCode
from podsched.serve.server.access.authorizer import Authorizer
from podsched.serve.server.access.identity import MASTERS
from podsched.serve.server.access.rights import WatchRight
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.watchcache import WatchCache
from podsched.v1 import api_pb2 as v1
from support.access_world import binding_of, calling, identity, rule
from support.api_objects import binding, node, pod
from support.api_world import World

BOB = identity("bob")
SCHEDULER = identity("system:kube-scheduler")


async def store(world: World, *items: AnyObject) -> None:
    for item in items:
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()


def refused(outcome: object) -> str:
    assert isinstance(outcome, ApiError), outcome
    assert outcome.code is StatusCode.PERMISSION_DENIED
    return outcome.message


async def test_who_has_no_role_may_do_nothing(world: World) -> None:
    await store(world, pod("web"))
    with calling(world.core, BOB), pytest.raises(ApiError) as caught:
        await world.core.registry.get("Pod", "", "web")
    assert refused(caught.value) == (
        'pods "web" is forbidden: User "bob" cannot get resource "pods" in API group "" '
        'in the namespace "default"'
    )


async def test_masters_may_do_everything_even_before_the_roles_are_known(world: World) -> None:
    empty = Authorizer(WatchCache(max_events=1, max_bytes=1), lambda: False)
    assert empty.rights_of(identity("admin", MASTERS)).everything
    with pytest.raises(ApiError, match="the server is starting"):
        empty.rights_of(BOB)


async def test_rights_of_an_identity_with_huge_names_are_not_kept(world: World) -> None:
    """Reviews may name thousands of them, 1 MB each."""
    rights_of = world.core.authorizer.rights_of
    alice = identity("alice", "staff")
    assert rights_of(alice) is rights_of(alice)
    for huge in (identity("u" * 5000), identity("u", "g" * 3000, "h" * 3000)):
        assert rights_of(huge) is not rights_of(huge)


async def test_a_role_holds_as_soon_as_it_is_bound_and_no_longer(world: World) -> None:
    bound = binding_of("view", "bob")
    await store(world, pod("web"), bound)
    with calling(world.core, BOB):
        await world.core.registry.get("Pod", "", "web")
    await world.core.deleter.delete(
        v1.DeleteRequest(kind="ClusterRoleBinding", name=bound.metadata.name)
    )
    await world.core.reflector.wait_until_fresh()
    with calling(world.core, BOB), pytest.raises(ApiError):
        await world.core.registry.get("Pod", "", "web")


async def test_a_binding_in_a_namespace_says_nothing_about_others(world: World) -> None:
    await store(world, binding_of("edit", "bob", "team"))
    there, here = pod("there"), pod("here")
    there.metadata.namespace = "team"
    with calling(world.core, BOB):
        outcomes = await world.core.creator.create_many([there, here])
        with pytest.raises(ApiError, match=r"pods is forbidden.* at the cluster scope"):
            await world.core.lister.page(v1.ListRequest(kind="Pod"))
        page = await world.core.lister.page(v1.ListRequest(kind="Pod", namespace="team"))
    assert isinstance(outcomes[0], Entry), "each item by itself"
    assert 'cannot create resource "pods"' in refused(outcomes[1])
    assert [entry.key for entry in page.entries] == ["team/there"]


async def test_creating_a_pod_with_a_node_is_binding(world: World) -> None:
    await store(world, binding_of("edit", "bob"))
    placed = pod("placed")
    placed.spec.node_name = "worker-1"
    with calling(world.core, BOB), pytest.raises(ApiError, match='resource "pods/binding"'):
        await world.core.creator.create(placed)


async def test_editors_may_not_bind_with_or_without_a_fence(world: World) -> None:
    await store(world, pod("web"), binding_of("edit", "bob"))
    fence = await world.new_term()
    with calling(world.core, BOB):
        for proof in (fence, None):
            (outcome,) = await world.core.pods.bind([binding("web", "worker-1")], proof)
            assert 'cannot create resource "pods/binding"' in refused(outcome)


async def test_the_scheduler_binds_with_a_fence_only(world: World) -> None:
    await store(world, pod("web"))
    fence = await world.new_term()
    with calling(world.core, SCHEDULER):
        (without,) = await world.core.pods.bind([binding("web", "worker-1")], None)
        (bound,) = await world.core.pods.bind([binding("web", "worker-1")], fence)
    assert 'cannot bindunfenced resource "pods/binding"' in refused(without)
    assert isinstance(bound, Entry)


async def test_evicting_against_budgets_needs_the_right_to_delete(world: World) -> None:
    role = ClusterRole()
    role.metadata.name = "evictor"
    role.rules.append(rule("create", "pods/eviction"))
    await store(world, pod("a"), pod("b"), role, binding_of("evictor", "bob"))
    with calling(world.core, BOB):
        polite, ruthless = await world.core.pods.evict(
            [
                v1.EvictRequest(name="a"),
                v1.EvictRequest(name="b", ignore_disruption_budgets=True),
            ],
            None,
        )
    assert isinstance(polite, Entry)
    assert 'cannot delete resource "pods"' in refused(ruthless)


@pytest.mark.parametrize(
    ("patch", "needed"),
    [
        (b'{"status": {}}', '"pods/status"'),
        (b'{"metadata": {"labels": {"a": "b"}}}', '"pods"'),
        (b"{}", '"pods"'),
        (b'{"status": {}, "metadata": {}}', '"pods/status"'),
    ],
)
async def test_a_patch_needs_the_right_to_each_part_that_it_writes(
    world: World, patch: bytes, needed: str
) -> None:
    await store(world, pod("web"))
    with calling(world.core, BOB):
        (outcome,) = await world.core.registry.patch(
            [v1.PatchRequest(kind="Pod", name="web", merge_patch=patch)], None
        )
    assert f"cannot patch resource {needed}" in refused(outcome)


async def calls_of(world: World) -> dict[str, Any]:
    core = world.core
    update, patch = node("worker-1"), b'{"metadata": {}}'
    return {
        "create": lambda: core.creator.create(node("new")),
        "create dry": lambda: core.creator.create(node("newer"), dry_run=True),
        "get": lambda: core.registry.get("Node", "", "worker-1"),
        "list": lambda: core.lister.page(v1.ListRequest(kind="Node")),
        "update": lambda: core.registry.update(update),
        "update status": lambda: core.registry.update(update, status=True),
        "patch": lambda: core.registry.patch(
            [v1.PatchRequest(kind="Node", name="worker-1", merge_patch=patch)], None
        ),
        "watch": lambda: anext(core.watcher.watch(v1.WatchRequest(kinds=["Node"]))),
        "bind": lambda: core.pods.bind([binding("web", "worker-1")], None),
        "evict": lambda: core.pods.evict([v1.EvictRequest(name="web")], None),
        "patch statuses": lambda: core.pods.patch_statuses([v1.PodStatusPatch(name="web")], None),
        "delete": lambda: core.deleter.delete(v1.DeleteRequest(kind="Node", name="worker-1")),
        "deletecollection": lambda: core.deleter.delete_collection(
            v1.DeleteCollectionRequest(kind="Node")
        ),
    }


async def test_no_call_passes_by_the_roles(world: World) -> None:
    with calling(world.core, BOB):
        for name, call in (await calls_of(world)).items():
            try:
                found = await call()
            except ApiError as error:
                found = [error]
            assert "is forbidden" in refused(found[0]), name


async def test_all_calls_are_the_administrators(world: World) -> None:
    await store(world, pod("web"))
    with calling(world.core, identity("admin", MASTERS)):
        for name, call in (await calls_of(world)).items():
            found = await call()
            assert not (isinstance(found, list) and isinstance(found[0], ApiError)), name


async def test_a_watch_ends_when_its_right_is_withdrawn(world: World) -> None:
    await store(world, binding_of("view", "bob"))
    pods = [KINDS["Pod"]]
    with calling(world.core, BOB):
        right = WatchRight(pods, "default")
    await store(world, pod("web"), binding_of("edit", "eve"))
    right.check()
    await world.core.deleter.delete(v1.DeleteRequest(kind="ClusterRoleBinding", name="bob-view"))
    await world.core.reflector.wait_until_fresh()
    with pytest.raises(ApiError, match='cannot watch resource "pods"'):
        right.check()


async def test_a_watch_of_all_kinds_needs_the_right_to_each(world: World) -> None:
    await store(world, binding_of("view", "bob"))
    with calling(world.core, BOB), pytest.raises(ApiError, match="nodes is forbidden"):
        await anext(world.core.watcher.watch(v1.WatchRequest()))


async def test_an_agent_with_the_nodes_role_writes_what_is_its_own(world: World) -> None:
    agent = identity("system:node:worker-1", "system:nodes")
    await store(world, pod("mine"), pod("other"))
    await world.core.pods.bind([binding("mine", "worker-1"), binding("other", "worker-2")], None)
    await world.core.reflector.wait_until_fresh()
    removals = [
        v1.EvictRequest(name=name, grace_period_seconds=0, ignore_disruption_budgets=True)
        for name in ("mine", "other")
    ]
    with calling(world.core, agent):
        (bound,) = await world.core.pods.bind([binding("mine", "worker-1")], None)
        mine, other = await world.core.pods.evict(removals, None)
        with pytest.raises(ApiError, match="cannot be written by this node"):
            await world.core.registry.update(node("worker-2"), status=True)
        await world.core.registry.update(node("worker-1"), status=True)
    assert "pods/binding" in refused(bound)
    assert isinstance(mine, Entry)
    assert 'is bound to "worker-2", not to this node' in refused(other)
