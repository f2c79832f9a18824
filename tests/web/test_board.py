"""What browsers know equals what is, whatever came in between."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podsched.api.objects import AnyObject, Event, Node, Pod, PodCondition
from podsched.web.board import LISTED, Board

NAMES = st.integers(0, 4)


def node(name: str, cpu: str = "4", zone: str = "", *, cordoned: bool = False) -> Node:
    made = Node()
    made.metadata.name = name
    made.metadata.labels["topology.kubernetes.io/zone"] = zone
    made.spec.unschedulable = cordoned
    made.status.allocatable.update({"cpu": cpu, "memory": "8Gi", "pods": "110"})
    made.status.conditions.add(type="Ready", status="True")
    return made


def pod(name: str, on: str = "", *, cpu: str = "500m", message: str = "", phase: str = "") -> Pod:
    made = Pod()
    made.metadata.name, made.metadata.namespace = name, "default"
    made.metadata.creation_timestamp.seconds = 1000 + len(name)
    made.spec.node_name = on
    made.spec.containers.add(name="c").resources.requests["cpu"] = cpu
    made.status.phase = phase
    if on or message:
        condition = PodCondition(type="PodScheduled", status="True" if on else "False")
        condition.reason, condition.message = "" if on else "Unschedulable", message
        condition.last_transition_time.seconds = 2000
        made.status.conditions.append(condition)
    return made


def event(name: str, at: int) -> Event:
    made = Event(type="Normal", reason="Scheduled", message=f"the event {name}", count=1)
    made.involved_object.kind, made.involved_object.name = "Pod", "p0"
    made.involved_object.namespace = "default"
    made.last_timestamp.seconds = at
    return made


class Browser:
    """Applies states and deltas, as the page's store does."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.known = copy.deepcopy(state)
        self.nodes = {row[0]: row for row in self.known.pop("nodes")}
        self.lists = {
            name: {row[0]: row for row in self.known.pop(name)}
            for name in ("pending", "events", "decisions")
        }

    def apply(self, delta: dict[str, Any]) -> None:
        for name, rows in self.lists.items():
            change = delta.get(name, {"set": [], "gone": []})
            for key in change["gone"]:
                del rows[key]
            rows.update((row[0], row) for row in change["set"])
        for name in ("zones", "shapes"):
            self.known[name] += delta.get(name, [])
        for number in delta.get("gone", []):
            self.nodes.pop(number, None)
        self.nodes.update((row[0], row) for row in delta.get("nodes", []))
        for number, *used in delta.get("use", []):
            self.nodes[number] = [*self.nodes[number][:5], *used]
        for name in ("totals", "groups"):
            self.known[name] = delta.get(name, self.known[name])

    def seen(self) -> dict[str, Any]:
        """Return what it knows, with zones and shapes in place of their numbers."""
        nodes = {
            row[1]: [self.known["zones"][row[2]], self.known["shapes"][row[3]], *row[4:]]
            for row in self.nodes.values()
        }
        counts = {name: self.known[name] for name in ("resources", "totals", "groups")}
        return {"nodes": nodes, **self.lists, **counts}


def seen(board: Board) -> dict[str, Any]:
    return Browser(board.state()).seen()


CHANGES = st.one_of(
    st.builds(
        lambda i, cpu, zone, off: ("Node", f"n{i}", node(f"n{i}", cpu, zone, cordoned=off)),
        NAMES,
        st.sampled_from(["4", "8"]),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
    ),
    st.builds(lambda i: ("Node", f"n{i}", None), NAMES),
    st.builds(
        lambda i, on, cpu, phase: (
            "Pod",
            f"default/p{i}",
            pod(f"p{i}", f"n{on}" if on >= 0 else "", cpu=cpu, message="no room", phase=phase),
        ),
        NAMES,
        st.integers(-1, 4),
        st.sampled_from(["1", "250m"]),
        st.sampled_from(["", "Succeeded"]),
    ),
    st.builds(lambda i: ("Pod", f"default/p{i}", None), NAMES),
    st.builds(lambda i, at: ("Event", f"default/e{i}", event(f"e{i}", at)), NAMES, NAMES),
    st.builds(lambda i: ("Event", f"default/e{i}", None), NAMES),
)
Changes = list[tuple[str, str, AnyObject | None]]


@given(st.lists(CHANGES, max_size=30), st.lists(st.lists(CHANGES, max_size=8), max_size=6))
@settings(deadline=None)
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
@settings(deadline=None)
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


def test_a_new_resource_makes_browsers_begin_anew() -> None:
    board = Board()
    board.put("Node", "n0", node("n0"))
    assert not board.broken
    other = node("n1")
    other.status.allocatable["example.com/gpu"] = "2"
    board.put("Node", "n1", other)
    assert board.broken
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
