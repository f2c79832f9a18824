"""Pods and pod groups are found by their names, their nodes and their namespaces."""

from __future__ import annotations

import pytest

from podsched.ask.web import details
from podsched.ask.web.board import Board
from podsched.ask.web.details import find_pods
from support.page_world import START, World, pod, pod_group


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


def world_with_a_gang() -> tuple[World, Board]:
    """A gang "train" of two members, of which one has a node, and a pod "train" of no group."""
    world, board = world_of(("default", "train", "node-1"))
    board.put("PodGroup", "default/train", pod_group("train", 2, scheduled=True))
    for made in (pod("train-0", "node-1", group="train"), pod("train-1", group="train")):
        world.put(made)
        board.put("Pod", f"default/{made.metadata.name}", made)
    board.delta()
    return world, board


@pytest.mark.parametrize(
    ("text", "keys", "count"),
    [
        ("", ["default/train", "PodGroup default/train"], 3),
        ("TRAIN", ["default/train", "PodGroup default/train"], 3),
        ("train-1", ["default/train-1"], 1),
        ("node-1", ["default/train", "default/train-0"], 2),
    ],
)
async def test_a_group_that_matches_is_one_line_in_place_of_its_members(
    text: str, keys: list[str], count: int
) -> None:
    found = await find_pods(*world_with_a_gang(), text, "")
    assert [row[0] for row in found["pods"]] == keys
    assert (found["count"], found["lines"]) == (count, len(keys))


async def test_the_row_of_a_group_counts_its_members_and_what_they_request() -> None:
    found = await find_pods(*world_with_a_gang(), "", "default")
    policy = "gang of at least 2"
    assert found["pods"][1] == [
        "PodGroup default/train", "Scheduled", "", 1000, 0, START, 1, 2, policy
    ]  # fmt: skip
    assert (await find_pods(*world_with_a_gang(), "", "shop"))["pods"] == []


async def test_a_group_without_members_is_found() -> None:
    world, board = world_of()
    board.put("PodGroup", "default/train", pod_group("train", 2))
    board.delta()
    found = await find_pods(world, board, "tr", "")
    assert [row[:2] for row in found["pods"]] == [["PodGroup default/train", "Waiting for members"]]


async def test_a_pod_that_goes_meanwhile_is_left_out() -> None:
    world, board = world_of(*PODS)
    del world.objects["Pod"]["shop/db"]
    found = await find_pods(world, board, "", "shop")
    assert [row[0] for row in found["pods"]] == ["shop/web-1"]
