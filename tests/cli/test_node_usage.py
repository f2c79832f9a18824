"""What pods on a node request."""

from __future__ import annotations

import pytest

from podsched.api.objects import Node, Pod
from podsched.cli.node_usage import humanised, requested_on, usage_cells, usage_rows


def pod(node: str, phase: str = "Running") -> Pod:
    message = Pod()
    message.spec.node_name, message.status.phase = node, phase
    message.spec.containers.add(name="c").resources.requests.update(cpu="250m", memory="128Mi")
    return message


def node() -> Node:
    message = Node()
    message.metadata.name = "n"
    message.status.allocatable.update(cpu="4", memory="1536Mi", pods="110")
    return message


def test_pods_that_have_ended_or_wait_do_not_count() -> None:
    pods = [pod("n"), pod("n"), pod("n", "Succeeded"), pod("", "Pending")]
    assert requested_on(pods) == {"n": {"cpu": 500, "memory": 256 << 20, "pods": 2}}


def test_a_node_shows_what_is_requested_of_what_it_has() -> None:
    used = requested_on([pod("n"), pod("n")])["n"]
    assert usage_cells(node(), used) == ("500m/4", "256Mi/1.5Gi", "2/110")
    assert usage_rows(node(), used)[0] == ["cpu", "500m", "4", "12%"]


def test_an_unreadable_quantity_counts_as_nothing() -> None:
    broken = node()
    broken.status.allocatable["cpu"] = "many"
    assert usage_cells(broken, {"cpu": 1})[0] == "1m/0"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 1000, "1000"),
        ("memory", (5 << 60) // 2, "2.5Ei"),
        ("memory", (2 << 60) - 1, "2.0Ei"),
        ("memory", (10**400 << 60) + 1, f"1{'0' * 400}.0Ei"),
        ("example.com/gpu", 3, "3"),
    ],
)
def test_amounts_are_written_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert humanised(resource, amount) == text


def test_a_share_may_be_of_any_size() -> None:
    used = {"memory": 10**400}
    tiny = node()
    tiny.status.allocatable["memory"] = "1"
    assert usage_rows(tiny, used)[1][3] == f"1{'0' * 402}%"
