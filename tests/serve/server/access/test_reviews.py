"""Who somebody is, and what he may do."""

from __future__ import annotations

import pytest

from podsched.api.objects import ClusterRole
from podsched.serve.server.access.identity import MASTERS, NODES, UNSECURED, Identity, set_caller
from podsched.serve.server.access.reviews import Reviews
from podsched.serve.server.errors import ApiError
from podsched.v1 import api_pb2 as v1
from support.access_world import binding_of, calling, identity, rule
from support.api_objects import pod
from support.api_world import World

BOB, ADMIN = identity("bob"), identity("admin", MASTERS)


@pytest.fixture
async def reviews(world: World) -> Reviews:
    """Bob is an editor of the namespace team."""
    await world.core.creator.create(binding_of("edit", "bob", "team"))
    await world.core.reflector.wait_until_fresh()
    return Reviews(world.core.authorizer)


async def can(
    world: World, reviews: Reviews, caller: Identity, verb: str, kind: str, **more: str
) -> bool:
    resource, _, subresource = kind.partition("/")
    more = {"namespace": "team", **more}
    user = more.pop("user", "")
    request = v1.SubjectAccessReviewRequest(
        verb=verb, resource=resource, subresource=subresource, **more
    )
    request.subject.username = user
    with calling(world.core, caller):
        return (await reviews.access(request)).allowed


async def test_everyone_may_ask_what_he_may_do(world: World, reviews: Reviews) -> None:
    assert await can(world, reviews, BOB, "create", "pods")
    assert await can(world, reviews, BOB, "create", "po/eviction")
    assert not await can(world, reviews, BOB, "create", "pods/binding")
    assert not await can(world, reviews, BOB, "create", "pods", namespace="other")
    assert not await can(world, reviews, BOB, "create", "pods", namespace="")
    assert await can(world, reviews, BOB, "get", "namespaces", namespace="", name="team")
    assert not await can(world, reviews, BOB, "get", "namespaces", name="other")
    assert not await can(world, reviews, BOB, "*", "*")
    assert await can(world, reviews, ADMIN, "*", "*")


async def test_asking_about_others_needs_the_right_to_impersonate(
    world: World, reviews: Reviews
) -> None:
    assert await can(world, reviews, ADMIN, "create", "pods", user="bob")
    assert not await can(world, reviews, ADMIN, "create", "nodes", user="bob")
    with pytest.raises(ApiError, match='User "bob" cannot impersonate resource "users"'):
        await can(world, reviews, BOB, "create", "pods", user="admin")


async def test_impersonation_may_be_limited_to_a_user(world: World, reviews: Reviews) -> None:
    role = ClusterRole()
    role.metadata.name = "helpdesk"
    role.rules.append(rule("impersonate", "users", "bob"))
    for item in (role, binding_of("helpdesk", "eve")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    assert await can(world, reviews, identity("eve"), "create", "pods", user="bob")
    with pytest.raises(ApiError):
        await can(world, reviews, identity("eve"), "create", "pods", user="admin")


def test_the_rules_of_a_namespace_are_listed(world: World, reviews: Reviews) -> None:
    request = v1.SubjectRulesReviewRequest(namespace="team")
    with calling(world.core, BOB):
        assert any("pods/eviction" in rule.resources for rule in reviews.rules(request).rules)
        request.namespace = "other"
        assert not reviews.rules(request).rules
    with calling(world.core, ADMIN):
        (every,) = reviews.rules(request).rules
        assert list(every.verbs) == ["*"]


async def test_an_unknown_kind_and_no_verb_are_mistakes(world: World, reviews: Reviews) -> None:
    for verb, kind in (("get", "unicorns"), ("", "pods")):
        with pytest.raises(ApiError, match=r"resource type|verb must be"):
            await can(world, reviews, BOB, verb, kind)


async def test_a_review_of_a_node_knows_the_pods_bound_to_it(
    world: World, reviews: Reviews
) -> None:
    item = pod("web")
    item.spec.node_name = "n1"
    item.spec.volumes.add(name="s", secret={"secretName": "one"})
    await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    request = v1.SubjectAccessReviewRequest(verb="get", resource="secrets", name="one")
    request.namespace = item.metadata.namespace
    request.subject.username, request.subject.groups[:] = "system:node:n1", [NODES]
    with calling(world.core, ADMIN):
        assert (await reviews.access(request)).allowed


async def test_one_learns_who_one_is(world: World, reviews: Reviews) -> None:
    set_caller(UNSECURED)
    found = reviews.self_subject()
    assert (found.username, found.authentication) == ("system:unsecured", "None")
    assert MASTERS in found.groups
