"""No user grants permissions that the user does not have."""

from __future__ import annotations

import pytest

from podsched.api.objects import AnyObject, ClusterRole, Role, RoleBinding
from podsched.serve.server.errors import ApiError
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


async def test_a_role_can_be_bound_at_once(roles: World) -> None:
    """Before the server, or another one, has learned of it."""
    bound = binding_of("local", "eve", "team")
    assert isinstance(bound, RoleBinding)
    bound.role_ref.kind = "Role"
    with calling(roles.core, BOB):
        await roles.core.creator.create(role("pods"))
        await roles.core.creator.create(bound)


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


RBAC = ("rbac.authorization.k8s.io",)
COLLECTED = (
    '{"metadata":{"finalizers":["example.com/a"],"ownerReferences":[{"apiVersion":"v1",'
    '"kind":"Node","name":"n","uid":"1"}]}}'
)


@pytest.fixture
async def aggregated(roles: World) -> World:
    """Bob may write ClusterRoles, and has one that is made of those with the label mine."""
    author, mine = ClusterRole(), ClusterRole()
    author.metadata.name, mine.metadata.name = "author", "mine"
    author.rules.append(rule("create get list patch update", "clusterroles", groups=RBAC))
    mine.aggregation_rule.cluster_role_selectors.add().match_labels["mine"] = "yes"
    for item in (author, mine, binding_of("author", "bob"), binding_of("mine", "bob")):
        await roles.core.creator.create(item)
    await roles.core.reflector.wait_until_fresh()
    return roles


async def patch(world: World, name: str, content: str, kind: str = "ClusterRole") -> object:
    namespace = "team" if kind in ("Role", "RoleBinding") else ""
    request = v1.PatchRequest(
        kind=kind, namespace=namespace, name=name, merge_patch=content.encode()
    )
    (outcome,) = await world.core.registry.patch([request], None)
    return outcome


LABEL = '{"metadata":{"labels":{"mine":"yes"}}}'


async def test_who_labels_a_role_with_more_into_his_own_is_refused(aggregated: World) -> None:
    with calling(aggregated.core, BOB):
        outcome = await patch(aggregated, "cluster-admin", LABEL)
    assert isinstance(outcome, ApiError) and "attempting to grant" in outcome.message
    with calling(aggregated.core, BOB) as found:
        assert not found.permit("delete", "", "nodes", "", "n")


async def test_an_update_that_labels_a_role_with_more_is_refused(aggregated: World) -> None:
    entry = await aggregated.core.registry.get("ClusterRole", "", "cluster-admin")
    changed = ClusterRole()
    changed.CopyFrom(entry.message)  # type: ignore[arg-type]
    changed.metadata.labels["mine"] = "yes"
    changed.metadata.resource_version = ""
    with calling(aggregated.core, BOB), pytest.raises(ApiError, match="attempting to grant"):
        await aggregated.core.registry.update(changed)


async def test_a_role_with_no_more_than_its_authors_is_labelled(aggregated: World) -> None:
    with calling(aggregated.core, BOB):
        outcome = await patch(aggregated, "author", LABEL)
    assert not isinstance(outcome, ApiError)


async def test_the_scheduler_labels_no_role_though_it_collects_them(aggregated: World) -> None:
    with calling(aggregated.core, identity("system:kube-scheduler")):
        refused = await patch(aggregated, "cluster-admin", LABEL)
        collected = await patch(aggregated, "cluster-admin", COLLECTED)
    assert isinstance(refused, ApiError) and "attempting to grant" in refused.message
    assert not isinstance(collected, ApiError)


async def test_the_aggregation_of_a_role_is_not_taken_away_by_who_has_less(
    aggregated: World,
) -> None:
    with calling(aggregated.core, BOB):
        outcome = await patch(aggregated, "mine", '{"aggregationRule":null}')
    assert isinstance(outcome, ApiError) and "attempting to grant" in outcome.message


@pytest.mark.parametrize("kind", ["Role", "RoleBinding"])
async def test_a_label_of_what_grants_more_is_refused_and_an_owner_is_not(
    roles: World, kind: str
) -> None:
    await roles.core.creator.create(role("nodes", name="strong"))
    await roles.core.creator.create(binding_of("cluster-admin", "eve", "team", "strong"))
    await roles.core.reflector.wait_until_fresh()
    with calling(roles.core, BOB):
        refused = await patch(roles, "strong", LABEL, kind)
        collected = await patch(roles, "strong", COLLECTED, kind)
    assert isinstance(refused, ApiError) and "attempting to grant" in refused.message
    assert not isinstance(collected, ApiError)


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
