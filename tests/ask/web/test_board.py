"""What browsers know equals what is, whatever came in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import ResourceSlice
from podsched.ask.web.board import LISTED, Board
from support.page_changes import CHANGES, TICKS, Browser, Changes
from support.page_world import node, pod, pod_group


def seen(board: Board) -> dict[str, Any]:
    return Browser(board.state()).seen()


@given(st.lists(CHANGES, max_size=30), TICKS)
def test_a_state_with_all_later_deltas_is_the_later_state(
    before: Changes, ticks: list[Changes]
) -> None:
    board = Board()
    for change in before:
        board.put(*change)
    board.delta()
    browser = Browser(board.state())
    for tick in ticks:
        for change in tick:
            board.put(*change)
        browser.apply(board.delta())
        assert browser.seen() == seen(board)


@given(st.lists(CHANGES, max_size=40))
def test_what_is_known_does_not_depend_on_how_it_came_about(changes: Changes) -> None:
    board, latest = Board(), {}
    for kind, key, found in changes:
        board.put(kind, key, found)
        latest[kind, key] = found
    fresh = Board()
    for (kind, key), found in latest.items():
        fresh.put(kind, key, found)
    board.delta(), fresh.delta()
    assert seen(board) == seen(fresh)


def test_nothing_is_sent_when_nothing_has_changed() -> None:
    board = Board()
    board.put("Node", "n0", node("n0"))
    board.put("Pod", "default/p0", pod("p0", "n0"))
    assert board.delta()
    board.put("Node", "n0", node("n0"))
    board.put("Pod", "default/p0", pod("p0", "n0"))
    assert board.delta() == {}


def test_a_pod_that_is_bound_costs_its_node_a_short_row() -> None:
    board = Board()
    board.put("Node", "n0", node("n0"))
    board.put("Pod", "default/p0", pod("p0"))
    board.delta()
    board.put("Pod", "default/p0", pod("p0", "n0"))
    delta = board.delta()
    assert delta["use"] == [[0, 500, 0, 1]]
    assert delta["pending"]["gone"] == ["default/p0"]
    assert "nodes" not in delta


def test_pods_that_came_before_their_node_count_once_it_is_there() -> None:
    board = Board()
    board.put("Pod", "default/p0", pod("p0", "n0"))
    assert "use" not in board.delta()
    board.put("Node", "n0", node("n0"))
    assert board.delta()["nodes"] == [[0, "n0", 0, 0, 0, 500, 0, 1]]


def test_of_many_pending_pods_the_first_are_sent_and_all_are_counted() -> None:
    board = Board()
    for index in range(LISTED + 50):
        board.put("Pod", f"default/p{index}", pod(f"p{index}", message="0/3 nodes: too few"))
    delta = board.delta()
    assert len(delta["pending"]["set"]) == LISTED
    assert delta["totals"]["pending"] == LISTED + 50
    assert delta["groups"] == [[LISTED + 50, "Unschedulable", "0/3 nodes: too few"]]


def test_the_members_of_a_group_are_one_line_of_the_pending_pods_and_of_the_decisions() -> None:
    board = Board()
    board.put("Pod", "default/alone", pod("alone", message="no room"))
    board.put("PodGroup", "default/g", pod_group("g", 2, message="no room for all"))
    for name in ("a", "b"):
        board.put("Pod", f"default/{name}", pod(name, message="no room", group="g"))
    delta = board.delta()
    for name in ("pending", "decisions"):
        keys = sorted(row[0] for row in delta[name]["set"])
        assert keys == ["PodGroup default/g", "default/alone"]
    assert (delta["totals"]["pending"], delta["totals"]["lines"]) == (3, 2)
    board.put("PodGroup", "default/g", pod_group("g", 2, scheduled=True))
    for name in ("a", "b"):
        board.put("Pod", f"default/{name}", pod(name, "n0", group="g"))
    delta = board.delta()
    assert delta["pending"] == {"set": [], "gone": ["PodGroup default/g"]}
    assert delta["decisions"]["set"][0][-1] == "2 of 2 members have a node"
    board.put("PodGroup", "default/g", None)
    for name in ("a", "b"):
        board.put("Pod", f"default/{name}", None)
    assert board.delta()["decisions"]["gone"] == ["PodGroup default/g"]
    assert board.groups.lines == {}


def test_a_gang_of_ten_thousand_is_sent_in_a_few_hundred_bytes() -> None:
    board = Board()
    board.put("PodGroup", "default/g", pod_group("g", 10_000, message="no room for all"))
    for index in range(10_000):
        board.put("Pod", f"default/p{index}", pod(f"p{index}", message="no room", group="g"))
    assert len(str(board.delta())) < 1_000
    assert board.groups.lines["default/g"].row.members == 10_000


def test_a_new_resource_makes_browsers_begin_anew() -> None:
    board = Board()
    board.put("Node", "n0", node("n0"))
    assert not board.nodes.broken
    other = node("n1")
    other.status.allocatable["example.com/gpu"] = "2"
    board.put("Node", "n1", other)
    assert board.nodes.broken
    assert board.state()["resources"] == ["cpu", "memory", "pods", "example.com/gpu"]


def test_nothing_that_could_be_a_secret_is_in_the_state() -> None:
    made = pod("p0", message="no room")
    container = made.spec.containers[0]
    container.env.add(name="PASSWORD", value="hunter2")
    made.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] = "hunter2"
    board = Board()
    board.put("Pod", "default/p0", made)
    board.delta()
    assert "hunter2" not in str(board.state()) and "PASSWORD" not in str(board.state())


def test_a_node_without_slices_is_forgotten() -> None:
    board = Board()
    piece = ResourceSlice()
    for name in ("n0", "n1"):
        piece.spec.node_name = name
        board.put("ResourceSlice", "s", piece)
        assert list(board._slices) == [name]
        assert board.slices_of(name) == ["s"]
    board.put("ResourceSlice", "s", None)
    assert not len(board._slices)
