"""What is remembered of answered questions."""

from __future__ import annotations

import time
from contextlib import nullcontext as does_not_raise
from dataclasses import replace

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import ClusterRole, RoleBinding
from podsched.serve.server.access.identity import SERVER, set_caller
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rights import OWN, Rights, WatchRight, rights, set_rights
from podsched.serve.server.errors import ApiError
from support.access_world import binding_of, identity, rule

POD, NODE, NAMESPACE = KINDS["Pod"], KINDS["Node"], KINDS["Namespace"]


def test_the_server_itself_may_do_everything() -> None:
    assert rights() is OWN
    OWN.check("delete", POD, "default", "web")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (("create", POD, "a"), 'resource "pods" in API group "" in the namespace "a"'),
        (("list", POD, ""), 'resource "pods" in API group "" at the cluster scope'),
        (("get", NODE, "a"), 'resource "nodes" in API group "" at the cluster scope'),
        (("patch", POD, "a", "web", "status"), 'pods "web" is forbidden.*resource "pods/status"'),
    ],
)
def test_a_refusal_says_what_who_and_where(question: tuple[str, ...], text: str) -> None:
    with pytest.raises(ApiError, match=f'User "bob" cannot {question[0]}|{text}') as caught:
        Rights(identity("bob"), Policy()).check(*question)  # type: ignore[arg-type]
    assert text.rpartition(".*")[2] in caught.value.message


@pytest.mark.parametrize(
    ("verb", "name", "permitted"),
    [
        ("get", "team", True),
        ("get", "other", False),
        ("delete", "team", True),
        ("list", "team", False),
        ("watch", "team", False),
        ("create", "", False),
    ],
)
def test_a_namespace_belongs_to_itself(verb: str, name: str, permitted: bool) -> None:
    role = ClusterRole(metadata={"name": "all"}, rules=[rule("*", "namespaces")])
    binding = binding_of("all", "bob", "team")
    assert isinstance(binding, RoleBinding)
    policy = Policy(cluster_roles=[role], role_bindings=[binding])
    found = Rights(identity("bob"), policy)
    refused = does_not_raise() if permitted else pytest.raises(ApiError)
    with refused:
        found.check(verb, NAMESPACE, "", name)


def test_questions_of_any_length_and_number_take_little_memory() -> None:
    found = Rights(identity("bob"), Policy())
    for number in range(10_000):
        found.permit("get", "", "pods", str(number))
    found.permit("get", "", "pods", "x" * 50_000)
    assert 0 < len(found._remembered) <= 4096
    assert all(len(key[3]) < 1000 for key in found._remembered)


def test_a_watch_lasts_as_long_as_its_own_credential() -> None:
    """Rights are shared by all credentials of a user: a kubelet's old token has ended."""
    now = time.time()
    shared = Rights(replace(identity("bob"), expires=now - 1), everything=True)
    for expires, ended in ((now + 60, False), (now - 1, True)):
        set_rights(shared)
        set_caller(replace(identity("bob"), expires=expires))
        try:
            watch = WatchRight([POD], "default")
            if ended:
                with pytest.raises(ApiError, match="the credential has expired"):
                    watch.check()
            else:
                watch.check()
        finally:
            set_rights(OWN)
            set_caller(SERVER)
