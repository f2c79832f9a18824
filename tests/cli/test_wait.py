"""The states that ``sched wait`` knows."""

from __future__ import annotations

import pytest
import typer

from podsched.api.objects import Pod
from podsched.cli.wait import parse_state


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


@pytest.mark.parametrize("state", ["", "ready", "condition=", "jsonpath={.a[}"])
def test_an_unknown_state_is_a_usage_error(state: str) -> None:
    with pytest.raises(typer.Exit) as ended:
        parse_state(state)
    assert ended.value.exit_code == 2
