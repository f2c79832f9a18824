"""Acting as another user: kubectl --as."""

from __future__ import annotations

import pytest

from podsched.api.objects import ClusterRole
from podsched.serve.server.access.identity import MASTERS, Identity
from podsched.serve.server.access.impersonation import impersonated
from podsched.serve.server.errors import ApiError
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, calling, identity, rule
from support.api_world import World
from support.kube_client import KubeClient

PODS = "/api/v1/namespaces/default/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ADMIN, HELPDESK = identity("admin", MASTERS), identity("helpdesk")
BOT = "system:serviceaccount:team:bot"


def user(name: str) -> list[tuple[str, str]]:
    return [("Impersonate-User", name)]


@pytest.fixture
async def world_with_helpdesk(world: World) -> World:
    """The helpdesk may act as bob, as an auditor, and as a ServiceAccount bot of any namespace."""
    role = ClusterRole()
    role.metadata.name = "helpdesk"
    role.rules.append(rule("impersonate", "users", "bob"))
    role.rules.append(rule("impersonate", "groups", "auditors"))
    role.rules.append(rule("impersonate", "serviceaccounts", "bot"))
    group = ("authentication.k8s.io",)
    role.rules.append(rule("impersonate", "userextras/scopes", "view", groups=group))
    role.rules.append(rule("impersonate", "uids", "7", groups=group))
    await world.core.creator.create(role)
    await world.core.creator.create(binding_of("helpdesk", "helpdesk"))
    await world.core.reflector.wait_until_fresh()
    return world


def seen(world: World, lines: list[tuple[str, str]], own: Identity = HELPDESK) -> Identity | None:
    with calling(world.core, own):
        return impersonated(lines, own)


def test_without_impersonation_headers_a_caller_acts_as_itself(world_with_helpdesk: World) -> None:
    assert seen(world_with_helpdesk, [("Accept", "application/json")]) is None


def test_another_user_has_the_groups_that_are_named(world_with_helpdesk: World) -> None:
    lines = [
        *user("bob"),
        ("impersonate-group", "auditors"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-Scopes", "view"),
    ]
    found = seen(world_with_helpdesk, lines)
    assert found is not None
    assert (found.user, found.uid, found.extra) == ("bob", "7", (("scopes", "view"),))
    assert found.groups == {"auditors", "system:authenticated"}


def test_a_service_account_has_its_groups(world_with_helpdesk: World) -> None:
    found = seen(world_with_helpdesk, user(BOT))
    assert found is not None
    accounts = {"system:serviceaccounts", "system:serviceaccounts:team"}
    assert found.groups == {*accounts, "system:authenticated"}


def test_an_anonymous_user_is_not_authenticated(world: World) -> None:
    found = seen(world, user("system:anonymous"), ADMIN)
    assert found is not None
    assert found.groups == {"system:unauthenticated"}


@pytest.mark.parametrize(
    "lines",
    [
        user("alice"),
        user("system:serviceaccount:team:other"),
        user("system:serviceaccount:bot"),
        [*user("bob"), ("Impersonate-Group", "auditors"), ("Impersonate-Group", MASTERS)],
        [*user("bob"), ("Impersonate-Uid", "8")],
        [*user("bob"), ("Impersonate-Extra-Scopes", "all")],
        [*user("bob"), ("Impersonate-Extra-Other", "view")],
    ],
    ids=["user", "account", "no account", "one of its groups", "uid", "extra value", "extra key"],
)
def test_each_name_must_be_permitted(
    world_with_helpdesk: World, lines: list[tuple[str, str]]
) -> None:
    with pytest.raises(ApiError, match='User "helpdesk" cannot impersonate resource'):
        seen(world_with_helpdesk, lines)


def test_a_group_without_a_user_is_refused(world: World) -> None:
    with pytest.raises(ApiError, match="needs the header Impersonate-User"):
        seen(world, [("Impersonate-Group", "auditors")], ADMIN)


async def test_a_request_has_the_rights_of_the_other_user(world: World) -> None:
    authorize = world.core.authorizer.rights_of
    kube = KubeClient(world.core, Pipeline(authenticate=lambda _: ADMIN, authorize=authorize))
    assert (await kube.request("GET", PODS)).status == 200
    refused = await kube.request("GET", PODS, headers={"Impersonate-User": "sam"})
    assert refused.status == 403
    assert 'User "sam" cannot list resource "pods"' in refused.json["message"]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = await kube.request("POST", WHO, body, {"Impersonate-User": BOT})
    assert who.json["status"]["userInfo"]["username"] == BOT
