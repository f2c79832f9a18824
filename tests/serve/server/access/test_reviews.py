"""Who somebody is, and what he may do."""

from __future__ import annotations

import pytest

from podsched.api.objects import ClusterRole
from podsched.serve.server.access.identity import MASTERS, UNSECURED, Identity, set_caller
from podsched.serve.server.access.reviews import Reviews
from podsched.serve.server.errors import ApiError
from podsched.v1 import api_pb2 as v1
from support.access_world import binding_of, calling, identity, rule
from support.api_world import World

BOB, ADMIN = identity("bob"), identity("admin", MASTERS)


@pytest.fixture
async def reviews(world: World) -> Reviews:
    """Bob is an editor of the namespace team."""
    await world.core.creator.create(binding_of("edit", "bob", "team"))
    await world.core.reflector.wait_until_fresh()
    return Reviews(world.core.authorizer)


def can(
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
        return reviews.access(request).allowed


def test_everyone_may_ask_what_he_may_do(world: World, reviews: Reviews) -> None:
    assert can(world, reviews, BOB, "create", "pods")
    assert can(world, reviews, BOB, "create", "po/eviction")
    assert not can(world, reviews, BOB, "create", "pods/binding")
    assert not can(world, reviews, BOB, "create", "pods", namespace="other")
    assert not can(world, reviews, BOB, "create", "pods", namespace="")
    assert not can(world, reviews, BOB, "*", "*")
    assert can(world, reviews, ADMIN, "*", "*")


def test_asking_about_others_needs_the_right_to_impersonate(world: World, reviews: Reviews) -> None:
    assert can(world, reviews, ADMIN, "create", "pods", user="bob")
    assert not can(world, reviews, ADMIN, "create", "nodes", user="bob")
    with pytest.raises(ApiError, match='User "bob" cannot impersonate resource "users"'):
        can(world, reviews, BOB, "create", "pods", user="admin")


async def test_impersonation_may_be_limited_to_a_user(world: World, reviews: Reviews) -> None:
    role = ClusterRole()
    role.metadata.name = "helpdesk"
    role.rules.append(rule("impersonate", "users", "bob"))
    for item in (role, binding_of("helpdesk", "eve")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    assert can(world, reviews, identity("eve"), "create", "pods", user="bob")
    with pytest.raises(ApiError):
        can(world, reviews, identity("eve"), "create", "pods", user="admin")


def test_the_rules_of_a_namespace_are_listed(world: World, reviews: Reviews) -> None:
    request = v1.SubjectRulesReviewRequest(namespace="team")
    with calling(world.core, BOB):
        assert any("pods/eviction" in rule.resources for rule in reviews.rules(request).rules)
        request.namespace = "other"
        assert not reviews.rules(request).rules
    with calling(world.core, ADMIN):
        (every,) = reviews.rules(request).rules
        assert list(every.verbs) == ["*"]


def test_an_unknown_kind_and_no_verb_are_mistakes(world: World, reviews: Reviews) -> None:
    for verb, kind in (("get", "unicorns"), ("", "pods")):
        with pytest.raises(ApiError, match=r"resource type|verb must be"):
            can(world, reviews, BOB, verb, kind)


async def test_one_learns_who_one_is(world: World, reviews: Reviews) -> None:
    set_caller(UNSECURED)
    found = reviews.self_subject()
    assert (found.username, found.authentication) == ("system:unsecured", "None")
    assert MASTERS in found.groups
