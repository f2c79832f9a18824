"""Nobody grants what he does not have."""

from __future__ import annotations

import pytest

from podsched.api.objects import AnyObject, ClusterRole, Role
from podsched.server.errors import ApiError
from podsched.v1 import api_pb2 as v1
from support.access_world import binding_of, calling, identity, rule
from support.api_world import World

BOB = identity("bob")


@pytest.fixture
async def roles(world: World) -> World:
    """Bob is admin of the namespace team."""
    await world.core.creator.create(binding_of("admin", "bob", "team"))
    await world.core.reflector.wait_until_fresh()
    return world


def role(resources: str, verbs: str = "get", name: str = "local") -> Role:
    item = Role()
    item.metadata.name, item.metadata.namespace = name, "team"
    item.rules.append(rule(verbs, resources))
    return item


async def create(world: World, item: AnyObject) -> None:
    with calling(world.core, BOB):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()


async def test_an_admin_passes_on_what_he_has(roles: World) -> None:
    await create(roles, role("pods"))
    await create(roles, binding_of("view", "eve", "team"))


async def test_a_role_with_more_than_its_authors_is_refused(roles: World) -> None:
    with pytest.raises(ApiError) as caught:
        await create(roles, role("pods pods/binding", "create"))
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "local" is forbidden: user "bob" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held: {APIGroups:[""], Resources:["pods/binding"], Verbs:["create"]}'
    )


async def test_a_role_that_is_changed_to_more_is_refused(roles: World) -> None:
    await create(roles, role("pods"))
    changed = role("pods/binding", "create")
    with calling(roles.core, BOB), pytest.raises(ApiError, match="attempting to grant"):
        await roles.core.registry.update(changed)


async def test_a_label_of_a_role_with_more_may_be_changed(roles: World) -> None:
    await roles.core.creator.create(role("nodes", name="strong"))
    patch = v1.PatchRequest(
        kind="Role",
        namespace="team",
        name="strong",
        merge_patch=b'{"metadata":{"labels":{"a":"b"}}}',
    )
    with calling(roles.core, BOB):
        (outcome,) = await roles.core.registry.patch([patch], None)
    assert not isinstance(outcome, ApiError)


async def test_a_binding_of_a_role_with_more_is_refused(roles: World) -> None:
    with pytest.raises(ApiError, match="attempting to grant"):
        await create(roles, binding_of("cluster-admin", "bob", "team"))


async def test_a_binding_of_a_role_that_does_not_exist_is_refused(roles: World) -> None:
    with pytest.raises(ApiError, match='"gone" not found'):
        await create(roles, binding_of("gone", "bob", "team"))


async def test_an_aggregated_role_counts_as_one_that_permits_everything(roles: World) -> None:
    author = ClusterRole()
    author.metadata.name = "author"
    author.rules.append(rule("*", "clusterroles", groups=("rbac.authorization.k8s.io",)))
    author.rules[0].verbs[:] = ["create"]
    for item in (author, binding_of("author", "bob")):
        await roles.core.creator.create(item)
    await roles.core.reflector.wait_until_fresh()
    every = ClusterRole()
    every.metadata.name = "every"
    every.aggregation_rule.cluster_role_selectors.add().match_labels["a"] = "b"
    with pytest.raises(ApiError, match="attempting to grant"):
        await create(roles, every)


@pytest.mark.parametrize(("verb", "resource"), [("escalate", "roles"), ("bind", "clusterroles")])
async def test_the_verbs_escalate_and_bind_permit_more(
    roles: World, verb: str, resource: str
) -> None:
    free = ClusterRole()
    free.metadata.name = "free"
    free.rules.append(rule(verb, resource, groups=("rbac.authorization.k8s.io",)))
    for item in (free, binding_of("free", "bob")):
        await roles.core.creator.create(item)
    await roles.core.reflector.wait_until_fresh()
    granting = role("nodes") if verb == "escalate" else binding_of("cluster-admin", "eve", "team")
    await create(roles, granting)
