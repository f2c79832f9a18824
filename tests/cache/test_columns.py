"""The columns after any sequence of changes, against a plain reading of nodes and pods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podsched.cache.columns import Columns
from podsched.cache.invariants import column_differences
from podsched.cache.pod_class import PodClasses
from podsched.cache.usage_columns import MOST_RESOURCES
from podsched.framework.nodes import ABSENT, UNKNOWN
from podsched.framework.pods import PodInfo
from support.cache_world import (
    MAX_INT64,
    ZONE,
    Labelled,
    LabelTerms,
    as_int64,
    info,
    make_node,
    plain_ports,
    plain_usage,
)
from support.examples import examples

NODES = [f"n{i}" for i in range(6)]
LABELS = st.dictionaries(st.sampled_from(["app", "twice"]), st.sampled_from(["a", "b"]))
REQUESTS = st.sampled_from(
    [{}, {"cpu": "100m", "memory": "1Gi"}, {"cpu": "2", "example.com/gpu": "1"}, {"memory": "1"}]
)
NODE_SHAPES = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from([ZONE, "disk"]), st.sampled_from(["x", "y"])),
        "taints": st.lists(st.just(("k", "v", "NoSchedule")), max_size=1),
        "allocatable": st.sampled_from(
            [{"cpu": "4", "pods": "10"}, {"cpu": "2", "memory": "8Gi", "example.com/gpu": "4"}]
        ),
        "images": st.dictionaries(st.sampled_from(["app:1", "db:2"]), st.sampled_from([10, 20])),
        "unschedulable": st.booleans(),
    }
)
POD_SHAPES = st.fixed_dictionaries(
    {
        "labels": LABELS,
        "requests": REQUESTS,
        "priority": st.sampled_from([0, 10]),
        "host_port": st.sampled_from([0, 0, 80]),
        "terminating": st.booleans(),
    }
)


class ColumnsMachine(RuleBasedStateMachine):
    """Random changes; the columns always equal a rebuild, and the journal is honest."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = Columns(size=2)
        self.classes = PodClasses()
        self.nodes: dict[str, Any] = {}
        self.pods: dict[str, tuple[str, PodInfo]] = {}
        self.next = 0
        self.position = self.columns.position
        self.seen: dict[int, Any] = {}

    def fresh_pod(self, shape: dict[str, Any]) -> PodInfo:
        self.next += 1
        return info(self.classes, f"p{self.next}", **shape)

    def row(self, node: str) -> int:
        row = self.columns.row_of(node)
        assert row is not None
        return row

    @rule(name=st.sampled_from(NODES), shape=NODE_SHAPES)
    def put_node(self, name: str, shape: dict[str, Any]) -> None:
        node = make_node(name, **shape)
        if name in self.nodes:
            self.columns.update_node(node)
        else:
            self.columns.add_node(node)
        self.nodes[name] = node

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        evicted = {pod.uid for pod in self.columns.remove_node(name)}
        assert evicted == {uid for uid, (node, _) in self.pods.items() if node == name}
        del self.nodes[name]
        self.pods = {uid: held for uid, held in self.pods.items() if held[0] != name}

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), shape=POD_SHAPES)
    def add_pod(self, data: st.DataObject, shape: dict[str, Any]) -> None:
        node = data.draw(st.sampled_from(sorted(self.nodes)))
        pod = self.fresh_pod(shape)
        self.columns.pod_table.add(self.row(node), pod)
        self.pods[pod.uid] = (node, pod)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), shape=POD_SHAPES)
    def add_batch(self, data: st.DataObject, shape: dict[str, Any]) -> None:
        names = data.draw(st.lists(st.sampled_from(sorted(self.nodes)), unique=True, min_size=1))
        pods = [self.fresh_pod({**shape, "terminating": False}) for _ in names]
        self.columns.pod_table.add_many(np.array([self.row(name) for name in names]), pods)
        self.pods.update({pod.uid: (n, pod) for n, pod in zip(names, pods, strict=True)})

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        node, pod = self.pods.pop(uid)
        self.columns.pod_table.remove(self.row(node), pod)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), shape=POD_SHAPES)
    def replace_pod(self, data: st.DataObject, shape: dict[str, Any]) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        node, old = self.pods[uid]
        pod = info(self.classes, old.name, **shape)
        self.columns.pod_table.replace(self.row(node), pod)
        self.pods[uid] = (node, pod)

    @rule(value=st.sampled_from("ab"), terminating=st.booleans())
    def ask_counter(self, value: str, terminating: bool) -> None:
        self.columns.counter(Labelled("app", value, terminating))

    @rule(key=st.sampled_from([ZONE, "disk"]))
    def ask_label(self, key: str) -> None:
        self.columns.label(key)

    @rule()
    def ask_carried(self) -> None:
        self.columns.terms_in_cluster(LabelTerms())

    @rule()
    def read_journal(self) -> None:
        self.position = self.columns.position
        self.seen = {row: self.facts(row) for row in range(self.columns.size)}

    def facts(self, row: int) -> Any:
        columns = self.columns
        usage = [int(columns.requested(name)[row]) for name in columns.pod_table.usage.index]
        while usage and not usage[-1]:
            usage.pop()
        taints = int(columns.taint_set[row])
        return columns.names[row], usage, taints, sorted(columns.pods(row))

    @invariant()
    def equals_a_rebuild(self) -> None:
        fresh = Columns()
        for node in self.nodes.values():
            fresh.add_node(node)
        for node, pod in self.pods.values():
            row = fresh.row_of(node)
            assert row is not None
            fresh.pod_table.add(row, pod)
        assert list(column_differences(self.columns, fresh)) == []

    @invariant()
    def equals_a_plain_reading(self) -> None:
        for name in self.nodes:
            row = self.row(name)
            pods = [pod for node, pod in self.pods.values() if node == name]
            for column, amount in plain_usage(pods).items():
                assert int(self.columns.requested(column)[row]) == amount
            assert dict(self.columns.used_ports(row)) == plain_ports(pods)
            for query in self.columns.pod_table.counters.table.of:
                assert int(self.columns.counter(query)[row]) == sum(map(query.counts, pods))
        carried = {pair for _, pod in self.pods.values() for pair in pod.cls.labels.items()}
        assert set(self.columns.terms_in_cluster(LabelTerms())) == carried

    @invariant()
    def the_journal_names_every_changed_row(self) -> None:
        changed = self.columns.changed_since(self.position)
        if changed is None:
            return
        for row in self.seen.keys() - set(changed.tolist()):
            assert self.facts(row) == self.seen[row]


TestColumns = ColumnsMachine.TestCase
TestColumns.settings = examples(40, stateful_step_count=30)


def test_a_new_node_reuses_the_row_of_a_removed_one() -> None:
    columns = Columns()
    row = columns.add_node(make_node("a", labels={"disk": "ssd"}))
    assert columns.label("disk")[row] == columns.value_id("ssd")
    columns.remove_node("a")
    assert not columns.alive[row] and columns.label("disk")[row] == ABSENT
    assert columns.add_node(make_node("b")) == row
    assert columns.row_of("a") is None and columns.names[row] == "b"


def test_a_heartbeat_changes_neither_version_nor_journal() -> None:
    columns = Columns()
    node = make_node("a", labels={"x": "y"})
    node.status.conditions.add(type="Ready", status="True")
    columns.add_node(node)
    position, version = columns.position, columns.nodes_version
    beaten = make_node("a", labels={"x": "y"})
    beaten.status.conditions.add(type="Ready", status="True").last_heartbeat_time.seconds = 9
    assert not columns.update_node(beaten)
    assert (columns.position, columns.nodes_version) == (position, version)
    assert columns.node(0) is beaten


def test_labels_change_the_topology_and_allocatable_does_not() -> None:
    columns = Columns()
    columns.add_node(make_node("a"))
    topology = columns.topology_version
    columns.update_node(make_node("a", allocatable={"cpu": "1"}))
    assert columns.topology_version == topology
    columns.update_node(make_node("a", allocatable={"cpu": "1"}, labels={"x": "y"}))
    assert columns.topology_version > topology


def test_sums_wrap_around_like_gos_int64() -> None:
    columns, classes = Columns(), PodClasses()
    row = columns.add_node(make_node("a"))
    pods = [info(classes, f"p{i}", requests={"memory": str(MAX_INT64)}) for i in range(3)]
    for pod in pods:
        columns.pod_table.add(row, pod)
    assert int(columns.requested("memory")[row]) == as_int64(3 * MAX_INT64)
    for pod in pods[:2]:
        columns.pod_table.remove(row, pod)
    assert int(columns.requested("memory")[row]) == MAX_INT64


def test_arrays_handed_out_cannot_be_written_to() -> None:
    columns = Columns()
    columns.add_node(make_node("a"))
    with pytest.raises(ValueError, match="read-only"):
        columns.requested("cpu")[0] = 1


def test_a_pod_is_not_counted_twice_on_a_row() -> None:
    columns = Columns()
    row = columns.add_node(make_node("a"))
    pod = info(PodClasses(), "p")
    columns.pod_table.add(row, pod)
    with pytest.raises(ValueError, match="already"):
        columns.pod_table.add(row, pod)
    assert columns.pod_count[row] == 1


def test_positions_from_before_the_columns_grew_are_too_old() -> None:
    columns = Columns(size=1)
    columns.add_node(make_node("a"))
    position = columns.position
    columns.add_node(make_node("b"))
    assert columns.changed_since(position) is None
    assert columns.changed_since(columns.position) is not None


def test_nodes_of_all_zones_are_ordered_in_turn() -> None:
    columns = Columns()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("c1", "c")):
        columns.add_node(make_node(name, labels={ZONE: zone}))
    ordered = [columns.names[row] for row in columns.ordered_rows.tolist()]
    assert ordered == ["a1", "b1", "c1", "a2", "a3"]
    columns.update_node(make_node("a1", labels={ZONE: "c"}))
    ordered = [columns.names[row] for row in columns.ordered_rows.tolist()]
    assert ordered == ["a1", "a2", "b1", "c1", "a3"]


def test_an_image_without_a_tag_is_looked_up_as_latest() -> None:
    columns = Columns()
    columns.add_node(make_node("a", images={"registry:5000/app:latest": 7}))
    columns.add_node(make_node("b", images={"registry:5000/app:v2": 8}))
    rows, sizes = columns.image_rows("registry:5000/app")
    assert (rows.tolist(), sizes.tolist()) == ([0], [7])


def test_taints_that_differ_only_in_time_are_one_set() -> None:
    columns = Columns()
    early, late = (make_node(name, taints=[("k", "v", "NoExecute")]) for name in "ab")
    early.spec.taints[0].time_added.seconds = 1
    late.spec.taints[0].time_added.seconds = 2
    rows = [columns.add_node(node) for node in (early, late)]
    assert columns.taint_set[rows[0]] == columns.taint_set[rows[1]] != 0


def test_sets_of_taints_that_no_node_has_any_more_take_no_room() -> None:
    columns = Columns()
    for name in "ab":
        columns.add_node(make_node(name, taints=[("k", "first", "NoExecute")]))
    for number in range(100):
        for name in "ab":
            columns.update_node(make_node(name, taints=[("k", str(number), "NoExecute")]))
            row = columns.row_of(name)
            assert row is not None
            [taint] = columns.taints(int(columns.taint_set[row]))
            assert taint.value == str(number)
    copied = columns.copy()
    for name in "ab":
        columns.remove_node(name)
    assert not any(columns.node_table.taint_sets.taints)
    assert len(columns.node_table.taint_sets.taints) < 5
    assert copied.taint_set[0] == copied.taint_set[1] != 0


def test_labels_and_values_that_no_node_has_take_no_room() -> None:
    columns = Columns()
    row = columns.add_node(make_node("a", labels={"disk": "ssd"}))
    for number in range(100):
        assert columns.label(f"made-up-{number}")[row] == ABSENT
        assert columns.value_id(f"made-up-{number}") == UNKNOWN
    assert not columns.node_table.labels.columns
    assert columns.node_table.labels.values == []


def test_values_that_no_node_has_any_more_take_no_room() -> None:
    columns = Columns()
    for number in range(4000):
        name = f"n{number}"
        row = columns.add_node(make_node(name, labels={"host": name, "zone": "z"}))
        assert columns.value(int(columns.label("host")[row])) == name
        assert columns.label("zone")[row] == columns.value_id("z")
        if number >= 10:
            columns.remove_node(f"n{number - 10}")
    assert len(columns.node_table.labels.values) < 2000


def test_a_label_that_a_node_gets_later_is_seen() -> None:
    columns = Columns()
    row = columns.add_node(make_node("a"))
    assert columns.label("disk")[row] == ABSENT and columns.value_id("ssd") == UNKNOWN
    columns.update_node(make_node("a", labels={"disk": "ssd"}))
    assert columns.label("disk")[row] == columns.value_id("ssd") >= 0
    columns.update_node(make_node("a"))
    assert columns.label("disk")[row] == ABSENT and not columns.node_table.labels.columns


def test_an_absent_label_has_as_many_rows_as_there_are() -> None:
    columns = Columns(2)
    columns.reserve(500)
    assert len(columns.label("nobody")) == columns.size
    for number in range(600):
        columns.add_node(make_node(f"n{number}"))
    assert len(columns.label("nobody")) == columns.size


def test_resources_that_no_node_offers_are_counted_up_to_a_bound() -> None:
    columns = Columns()
    row = columns.add_node(make_node("a"))
    classes = PodClasses()
    for number in range(MOST_RESOURCES + 100):
        requests = {f"made.up/r{number}": "1"}
        columns.pod_table.add(row, info(classes, f"p{number}", requests=requests))
    assert len(columns.pod_table.usage.index) == MOST_RESOURCES
    offered = make_node("b", allocatable={"real.example/gpu": "4"})
    other = columns.add_node(offered)
    columns.pod_table.add(other, info(classes, "real", requests={"real.example/gpu": "2"}))
    assert columns.requested("real.example/gpu")[other] == 2
