"""A shadow decides on each pod as it was before it was bound, and changes nothing."""

from __future__ import annotations

from typing import Any

from podsched.api.objects import AnyObject
from podsched.config.load import load_config
from podsched.registry import factories
from podsched.serve.client.informer import Event, EventType
from podsched.term.shadow import Shadow, Verdict
from support.engine_world import node, pod


class Rows:
    """A sink that keeps rows."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def numbers(self, pods: int) -> int:
        return len(self.rows)

    def put(self, entry: tuple[Any, ...], pods: int = 0) -> None:
        assert entry[0] == "row"
        self.rows.append(entry[1])


class World:
    """A shadow with a strategy, and what happens in its cluster."""

    def __init__(self, strategy: str = "LeastAllocated") -> None:
        args = {"scoringStrategy": {"type": strategy}}
        profile = {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
            "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        }
        self.sink = Rows()
        config = load_config({"profiles": [profile]})
        self.shadow = Shadow(config, factories(), self.sink, 0.0)

    def happens(self, new: AnyObject, old: AnyObject | None = None) -> Verdict | None:
        kind = type(new).DESCRIPTOR.name
        key = new.metadata.name if kind == "Node" else f"default/{new.metadata.name}"
        type_ = EventType.MODIFIED if old is not None else EventType.ADDED
        return self.shadow.decide_and_apply(Event(type_, kind, key, old, new), 7, 1.0)

    def bind(self, name: str, node_name: str, **spec: Any) -> Verdict | None:
        """A pod comes, waits, and is bound by somebody."""
        full = {"schedulerName": "default-scheduler", **spec}
        waiting = pod(name, full)
        self.happens(waiting)
        return self.happens(pod(name, {**full, "nodeName": node_name}), waiting)


def test_each_pod_is_decided_on_where_those_before_it_are_bound() -> None:
    world = World("MostAllocated")
    for name in ("n1", "n2"):
        world.happens(node(name))
    assert world.bind("a", "n2") is Verdict.TIED, "both are empty"
    assert world.bind("b", "n2") is Verdict.SAME, "n2 is fuller"
    assert world.bind("c", "n1") is Verdict.DIFFERENT
    (row,) = world.sink.rows
    assert (row[2], row[11], row[23]["bound_node"]) == ("c", "n2", "n1")
    assert row[8] == 7
    assert [score[0] for score in row[23]["scores"]] == ["n2", "n1"]


def test_a_pod_that_would_fit_nowhere_is_told_with_the_reason() -> None:
    world = World()
    world.happens(node("n1", labels={"zone": "a"}))
    assert world.bind("a", "n1", nodeSelector={"zone": "b"}) is Verdict.UNSCHEDULABLE
    (row,) = world.sink.rows
    assert row[21].startswith("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity")


def test_a_pod_that_was_bound_between_two_looks_is_decided_on_too() -> None:
    world = World()
    world.happens(node("n1"))
    bound = pod("a", {"schedulerName": "default-scheduler", "nodeName": "n1"})
    assert world.happens(bound) is Verdict.SAME


def test_what_binds_no_pod_of_its_profiles_is_taken_over_without_a_decision() -> None:
    world = World()
    assert world.happens(node("n1")) is None
    assert world.bind("theirs", "n1", schedulerName="theirs") is None
    waiting = pod("b", {"schedulerName": "default-scheduler"})
    assert world.happens(waiting) is None
    assert not world.sink.rows
