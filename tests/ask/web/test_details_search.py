"""Pods are found by their names, their nodes and their namespaces."""

from __future__ import annotations

import pytest

from podsched.ask.web import details
from podsched.ask.web.board import Board
from podsched.ask.web.details import find_pods
from support.page_world import START, World, pod


def world_of(*pods: tuple[str, str, str]) -> tuple[World, Board]:
    """Pods by namespace, name and node."""
    world, board = World(), Board()
    for namespace, name, on in pods:
        made = pod(name, on)
        made.metadata.namespace = namespace
        world.put(made)
        board.put("Pod", f"{namespace}/{name}", made)
    return world, board


PODS = (
    ("default", "web-0", "node-1"),
    ("default", "Job-7", ""),
    ("shop", "web-1", "node-2"),
    ("shop", "db", "node-1"),
)


@pytest.mark.parametrize(
    ("text", "namespace", "keys"),
    [
        ("", "", ["default/Job-7", "default/web-0", "shop/db", "shop/web-1"]),
        ("web", "", ["default/web-0", "shop/web-1"]),
        ("WEB", "shop", ["shop/web-1"]),
        ("job", "", ["default/Job-7"]),
        ("node-1", "", ["default/web-0", "shop/db"]),
        ("shop", "", []),
    ],
)
async def test_a_text_is_part_of_a_name_or_of_a_nodes(
    text: str, namespace: str, keys: list[str]
) -> None:
    found = await find_pods(*world_of(*PODS), text, namespace)
    assert [row[0] for row in found["pods"]] == keys
    assert found["count"] == len(keys)
    assert found["namespaces"] == [["default", 2], ["shop", 2]]


async def test_a_row_says_where_a_pod_is_and_what_it_requests() -> None:
    found = await find_pods(*world_of(PODS[0]), "", "")
    assert found["pods"] == [["default/web-0", "Pending", "node-1", 500, 0, START]]


async def test_many_pods_are_counted_and_the_first_are_listed() -> None:
    many = [("default", f"p{number:04d}", "") for number in range(details.LISTED + 5)]
    found = await find_pods(*world_of(*many), "", "")
    assert found["count"] == len(many)
    assert [row[0] for row in found["pods"]] == [
        f"default/{n}" for _, n, _ in many[: details.LISTED]
    ]


async def test_a_pod_that_goes_meanwhile_is_left_out() -> None:
    world, board = world_of(*PODS)
    del world.objects["Pod"]["shop/db"]
    found = await find_pods(world, board, "", "shop")
    assert [row[0] for row in found["pods"]] == ["shop/web-1"]
