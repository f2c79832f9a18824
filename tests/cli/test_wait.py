"""The states that ``sched wait`` knows."""

from __future__ import annotations

import pytest
import typer

from podsched.api.kinds import KINDS
from podsched.api.objects import Pod
from podsched.cli.targets import Target
from podsched.cli.wait import parse_state, wait_for
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
    ],
)
def test_a_pod_is_in_a_state_or_not(state: str, reached: bool) -> None:
    assert parse_state(state)(pod()) is reached


def test_no_object_is_what_delete_waits_for() -> None:
    assert parse_state("delete")(None)
    assert not parse_state("condition=Ready")(None)
    assert not parse_state("jsonpath={.status.phase}")(None)


@pytest.mark.parametrize("state", ["", "ready", "condition=", "jsonpath={.a[}", "jsonpath={.a"])
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
