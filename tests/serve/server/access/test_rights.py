"""What is remembered of answered questions."""

from __future__ import annotations

import pytest

from podsched.api.kinds import KINDS
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rights import OWN, Rights, rights
from podsched.serve.server.errors import ApiError
from support.access_world import identity

POD, NODE = KINDS["Pod"], KINDS["Node"]


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


def test_questions_of_any_length_and_number_take_little_memory() -> None:
    found = Rights(identity("bob"), Policy())
    for number in range(10_000):
        found.permit("get", "", "pods", str(number))
    found.permit("get", "", "pods", "x" * 50_000)
    assert 0 < len(found._remembered) <= 4096
    assert all(len(key[3]) < 1000 for key in found._remembered)
