"""What ``sched status`` tells besides the replicas."""

from __future__ import annotations

from typing import cast

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import ReplicaSet, StatefulSet
from podsched.cli.describe import NO_CONTROLLER, describe
from podsched.cli.status import left_alone_text, without_controller
from podsched.serve.client.api_client import ApiClient, Listing
from podsched.serve.client.errors import Forbidden
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient


def replica_set(name: str, observed: int = 0) -> ReplicaSet:
    item = ReplicaSet()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.status.observed_generation = observed
    return item


def stateful_set(name: str) -> StatefulSet:
    item = StatefulSet()
    item.metadata.name, item.metadata.namespace = name, "default"
    return item


async def test_workloads_that_no_controller_has_looked_at_are_counted() -> None:
    cluster = FakeCluster()
    for item in (replica_set("a"), replica_set("b"), replica_set("c", 1), stateful_set("db")):
        cluster.create(item)
    client = cast(ApiClient, CommandClient(cluster))
    assert await without_controller(client) == {"ReplicaSet": 2, "StatefulSet": 1}


async def test_who_may_not_list_workloads_is_told_the_rest() -> None:
    class Guarded:
        async def list(self, kind: str) -> Listing:
            raise Forbidden(f"cannot list {kind}")

    assert await without_controller(cast(ApiClient, Guarded())) == {}


def test_the_count_is_told_in_a_sentence() -> None:
    text = left_alone_text("ReplicaSet", 2)
    assert text == "2 ReplicaSets make no pods: podsched has no controller for them"
    text = left_alone_text("StatefulSet", 1)
    assert text == "1 StatefulSet makes no pods: podsched has no controller for it"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_description_says_that_no_controller_makes_pods(kind: str) -> None:
    item = KINDS[kind].message()
    item.metadata.name = "web"
    said = f"Controller:    {NO_CONTROLLER}"
    assert said in describe(item, [], [], 0.0).splitlines()
    item.status.observed_generation = 1
    assert said not in describe(item, [], [], 0.0).splitlines()
