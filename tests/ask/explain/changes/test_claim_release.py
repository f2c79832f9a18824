"""Taking a pod out of its claims."""

from __future__ import annotations

import pytest

from podsched.api.objects import copy_of
from podsched.ask.whatif.world import World, pods_on
from podsched.framework.pods import PodInfo
from support.device_objects import device_class, devices, resource_claim, template, user
from support.whatif_world import node, world

CLAIM = "ResourceClaim"


def consumers(made: World, name: str) -> list[str]:
    claim = made.cluster.assumed(CLAIM).get("default", name)
    return [of.name for of in claim.status.reserved_for]


def test_a_consumer_that_is_only_assumed_keeps_the_claim_of_a_pod_that_goes() -> None:
    made = world([node("n"), devices("n", 1), device_class(), resource_claim("shared")])
    pods = [made.changes.submit(user(name, claim="shared")) for name in ("gone", "stays")]
    made.schedule(pods)
    claim = made.cluster.get(CLAIM, "default", "shared")
    written = copy_of(claim)
    del written.status.reserved_for[1:]
    with made.changes.part() as changes:
        changes.put(CLAIM, written)
    made.cluster.assumed(CLAIM).assume(claim)
    assert consumers(made, "shared") == ["gone", "stays"]
    made.changes.remove(made.pods()[0])
    assert consumers(made, "shared") == ["stays"]


def test_a_claim_that_was_made_for_a_pod_goes_with_it() -> None:
    made = world([node("n"), devices("n", 1), device_class(), template("one")])
    made.schedule([made.changes.submit(user("user", template="one"))])
    waits = made.changes.submit(user("waits", template="one"))
    assert len(made.cluster.list(CLAIM)) == 2
    with made.question(waits).without(pods_on(made, "n")):
        assert len(made.cluster.list(CLAIM)) == 1
    assert len(made.cluster.list(CLAIM)) == 2


def test_a_question_reads_the_claims_once_for_all_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world([node("n"), devices("n", 1), device_class(), template("one")])
    waits = made.changes.submit(user("waits", template="one"))
    gone = [with_gpu(made, f"gone-{index}") for index in range(3)]
    question, read, listed = made.question(waits), list[str](), made.cluster.list

    def count(kind: str, namespace: str | None = None) -> object:
        read.append(kind)
        return listed(kind, namespace)

    monkeypatch.setattr(made.cluster, "list", count)
    with question.without(gone), question.without(gone):
        pass
    assert read.count(CLAIM) == 1


def with_gpu(made: World, name: str) -> PodInfo:
    """Submit a pod that requests an extended resource."""
    pod = user(name, template="one")
    pod.spec.containers[0].resources.requests["example.com/gpu"] = "1"
    return made.changes.submit(pod)
