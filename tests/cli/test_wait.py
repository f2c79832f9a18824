"""The states that ``sched wait`` knows."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
import typer

from podsched.api.kinds import KINDS
from podsched.api.objects import ClusterQueue, Deployment, PersistentVolumeClaim, Pod
from podsched.cli.targets import Target
from podsched.cli.wait import parse_state, wait_for, wait_for_all
from podsched.serve.client.errors import Unavailable
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient
from support.engine_world import pod as pod_of


def pod() -> Pod:
    message = Pod()
    message.status.phase = "Running"
    message.status.conditions.add(type="PodScheduled", status="True")
    return message


@pytest.mark.parametrize(
    ("state", "reached"),
    [
        ("create", True),
        ("delete", False),
        ("condition=PodScheduled", True),
        ("condition=podscheduled=false", False),
        ("condition=Ready", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath=.status.phase=Pending", False),
        ("jsonpath={.status.phase}", True),
        ("jsonpath={.status.startTime}", False),
        ('jsonpath={.status.conditions[?(@.type=="PodScheduled")].status}=True', True),
        ('jsonpath=.status.conditions[?(@.type=="PodScheduled")].status="False"', False),
    ],
)
def test_a_pod_is_in_a_state_or_not(state: str, reached: bool) -> None:
    assert parse_state(state)(pod()) is reached


def test_no_object_is_what_delete_waits_for() -> None:
    assert parse_state("delete")(None)
    assert not parse_state("condition=Ready")(None)
    assert not parse_state("jsonpath={.status.phase}")(None)


def test_a_condition_of_an_older_spec_does_not_count() -> None:
    deployment = Deployment()
    deployment.status.conditions.add(type="Available", status="True")
    deployment.metadata.generation, deployment.status.observed_generation = 2, 1
    reached = parse_state("condition=Available")
    assert not reached(deployment)
    deployment.status.observed_generation = 2
    assert reached(deployment)


def test_a_condition_that_says_itself_that_its_spec_is_older_does_not_count() -> None:
    queue = ClusterQueue()
    active = queue.status.conditions.add(type="Active", status="True", observed_generation=1)
    queue.metadata.generation = 2
    reached = parse_state("condition=Active")
    assert not reached(queue)
    active.observed_generation = 2
    assert reached(queue)


def test_a_condition_without_a_schema_counts() -> None:
    claim = PersistentVolumeClaim()
    claim.status.conditions.add().update({"type": "Resizing", "status": "True"})
    assert parse_state("condition=resizing")(claim)
    assert not parse_state("condition=Resizing=False")(claim)


def test_an_object_is_deleted_although_another_has_its_name_already() -> None:
    reached = parse_state("delete")
    first, second = pod(), pod()
    first.metadata.uid, second.metadata.uid = "1", "2"
    assert [reached(obj) for obj in (first, first, second)] == [False, False, True]


@pytest.mark.parametrize(
    "state",
    [
        *("", "ready", "condition=", "jsonpath={.a[}", "jsonpath={.a"),
        *("jsonpath={.a}=", "jsonpath={.a}b"),
    ],
)
def test_an_unknown_state_is_a_usage_error(state: str) -> None:
    with pytest.raises(typer.Exit) as ended:
        parse_state(state)
    assert ended.value.exit_code == 2


@pytest.mark.parametrize(("state", "ended"), [("create", True), ("delete", False)])
async def test_without_time_to_wait_the_state_is_looked_at_once(state: str, ended: bool) -> None:
    cluster = FakeCluster()
    cluster.create(pod_of("a", {}))
    client = CommandClient(cluster)
    target = Target(KINDS["Pod"], "a", "default")
    assert await wait_for(client, target, state, "0s") is ended  # type: ignore[arg-type]
    assert client.calls == ["get Pod a"]


@pytest.mark.looptime
async def test_objects_to_be_created_may_be_named_by_their_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster, pods = FakeCluster(), Target(KINDS["Pod"], "", "default")
    asyncio.get_running_loop().call_later(5, cluster.create, pod_of("a", {}))
    client: Any = CommandClient(cluster)
    assert await wait_for_all(client, [pods], "", "create", "10s")
    assert capsys.readouterr().out == "pod/a created\n"


@pytest.mark.looptime
async def test_a_listed_object_is_deleted_although_only_the_next_one_of_its_name_is_seen() -> None:
    cluster, pods = FakeCluster(), Target(KINDS["Pod"], "", "default")
    first, second = pod_of("a", {}), pod_of("a", {})
    first.metadata.uid, second.metadata.uid = "1", "2"
    cluster.create(first)
    client: Any = CommandClient(cluster)
    listed = client.list

    async def list_and_replace(*given: Any, **more: Any) -> Any:
        found = await listed(*given, **more)
        cluster.delete("Pod", "default/a")
        cluster.create(second)
        return found

    client.list = list_and_replace
    assert await wait_for_all(client, [pods], "", "delete", "1s")


@pytest.mark.looptime
async def test_a_server_that_has_answered_may_be_missing_for_a_while() -> None:
    cluster, target = FakeCluster(), Target(KINDS["Pod"], "a", "default")
    cluster.create(pod_of("a", {}))
    client: Any = CommandClient(cluster)
    answer, loop = client.get, asyncio.get_running_loop()

    async def get(*given: Any) -> Any:
        if 1.0 < loop.time() < 9.0:
            raise Unavailable("connection refused")
        return await answer(*given)

    client.get = get
    loop.call_later(5.0, cluster.delete, "Pod", "default/a")
    assert await wait_for(client, target, "delete", "20s")
    assert loop.time() >= 9.0


@pytest.mark.looptime
async def test_a_server_that_has_never_answered_is_not_waited_for() -> None:
    client: Any = CommandClient(FakeCluster())
    client.get = AsyncMock(side_effect=Unavailable("connection refused"))
    with pytest.raises(Unavailable):
        await wait_for(client, Target(KINDS["Pod"], "a", "default"), "create", "20s")
