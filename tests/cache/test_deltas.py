"""A shard that is told of changes by deltas has the leader's columns on its nodes."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podsched.cache.columns import Columns
from podsched.cache.delta_decoder import DeltaDecoder
from podsched.cache.delta_encoder import ClassWriter, DeltaEncoder
from podsched.cache.deltas import DeltaGapError, class_content, shard_of
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.pods import PodInfo
from support.cache_world import ZONE, Labelled, info, make_node, make_pod
from support.examples import examples

NODES = [f"n{i}" for i in range(5)]
SHARDS = 2
QUERY = Labelled("app", "a")


class Copy:
    """An encoder and its decoder, with pickling between them."""

    def __init__(self, columns: Columns, shard: int) -> None:
        self.encoder = DeltaEncoder(columns, lambda name: shard_of(name, SHARDS) == shard)
        self.decoder = DeltaDecoder()

    def sync(self, limit: int | None = None) -> bool:
        delta = self.encoder.encode(limit)
        if delta is not None:
            self.decoder.apply(pickle.loads(pickle.dumps(delta)))
        return delta is not None


def pods_of(columns: Columns, row: int) -> list[Any]:
    """In their order: among equally important pods it decides whom preemption spares."""
    return [
        (
            uid,
            pod.key,
            pod.node_name,
            pod.start_time,
            pod.creation_time,
            pod.terminating,
            class_content(pod.cls),
        )
        for uid, pod in columns.pods(row).items()
    ]


def facts(columns: Columns, row: int) -> Any:
    usage = {name: int(columns.requested(name)[row]) for name in columns.pod_table.usage.index}
    return (
        columns.names[row],
        bool(columns.unschedulable[row]),
        {name: amount for name, amount in usage.items() if amount},
        int(columns.allocatable("cpu")[row]),
        int(columns.allowed_pod_number[row]),
        columns.value(int(columns.label(ZONE)[row])),
        [(t.key, t.value, t.effect) for t in columns.taints(int(columns.taint_set[row]))],
        dict(columns.used_ports(row)),
        int(columns.counter(QUERY)[row]),
        columns.node(row).SerializeToString(deterministic=True),
    )


class DeltasMachine(RuleBasedStateMachine):
    """Random changes of the leader's columns; after each sync every shard has its part of them."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = Columns(size=2)
        self.classes = PodClasses()
        self.copies = [Copy(self.columns, shard) for shard in range(SHARDS)]
        self.pods: dict[str, tuple[str, PodInfo]] = {}
        self.next = 0
        self.synced = False

    def row(self, node: str) -> int:
        row = self.columns.row_of(node)
        assert row is not None
        return row

    def pod(self, name: str, node: str, shape: dict[str, Any], start: int) -> PodInfo:
        message = make_pod(name, node=node, **shape)
        if start:
            message.status.start_time.seconds = start
        return make_pod_info(message, self.classes)

    def nodes(self) -> list[str]:
        return [name for name in NODES if self.columns.row_of(name) is not None]

    shapes = st.fixed_dictionaries(
        {
            "labels": st.dictionaries(st.just("app"), st.sampled_from(["a", "b"])),
            "terminating": st.booleans(),
            "host_port": st.sampled_from([0, 80]),
            "priority": st.sampled_from([0, 3]),
        }
    )

    @rule(
        name=st.sampled_from(NODES),
        zone=st.sampled_from("xyz"),
        taints=st.sampled_from([[], [("k", "v", "NoSchedule")]]),
    )
    def put_node(self, name: str, zone: str, taints: Any) -> None:
        node = make_node(name, labels={ZONE: zone}, taints=taints)
        if self.columns.row_of(name) is None:
            self.columns.add_node(node)
        else:
            self.columns.update_node(node)
        self.synced = False

    @precondition(lambda self: self.nodes())
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.nodes()))
        for pod in self.columns.remove_node(name):
            del self.pods[pod.uid]
        self.synced = False

    @precondition(lambda self: self.nodes())
    @rule(data=st.data(), shape=shapes)
    def add_pod(self, data: st.DataObject, shape: dict[str, Any]) -> None:
        node = data.draw(st.sampled_from(self.nodes()))
        self.next += 1
        pod = self.pod(f"p{self.next}", node, shape, 0)
        self.columns.pod_table.add(self.row(node), pod)
        self.pods[pod.uid] = (node, pod)
        self.synced = False

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), shape=shapes, start=st.integers(0, 3), keep=st.booleans())
    def change_pod(
        self, data: st.DataObject, shape: dict[str, Any], start: int, keep: bool
    ) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        node, old = self.pods[uid]
        if keep:
            message = old.pod.__class__.FromString(old.pod.SerializeToString())
            message.spec.node_name = node
            message.status.start_time.seconds = start + 1
            pod = make_pod_info(message, self.classes)
        else:
            pod = self.pod(old.name, node, shape, start)
        self.columns.pod_table.replace(self.row(node), pod)
        self.pods[uid] = (node, pod)
        self.synced = False

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove_or_move_pod(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        node, pod = self.pods.pop(uid)
        self.columns.pod_table.remove(self.row(node), pod)
        to = data.draw(st.sampled_from(["", *self.nodes()]))
        if to:
            pod.node_name = to
            self.columns.pod_table.add(self.row(to), pod)
            self.pods[uid] = (to, pod)
        self.synced = False

    @rule(shard=st.integers(0, SHARDS - 1))
    def a_shard_starts_anew(self, shard: int) -> None:
        self.copies[shard].decoder = DeltaDecoder()
        self.copies[shard].encoder.restart()
        self.synced = False

    @rule(limit=st.integers(1, 2))
    def sync_a_part(self, limit: int) -> None:
        for copy in self.copies:
            copy.sync(limit)
            self.rows_not_unsent_are_as_here(copy)

    def rows_not_unsent_are_as_here(self, copy: Copy) -> None:
        unsent = copy.encoder.unsent_rows()
        for row in copy.decoder.columns.node_table.live_rows.tolist():
            if unsent is not None and row not in unsent:
                there, here = pods_of(copy.decoder.columns, row), pods_of(self.columns, row)
                assert [(p[0], p[6]) for p in there] == [(p[0], p[6]) for p in here]
        unsent = copy.encoder.unsent_rows(with_start_times=True)
        for row in copy.decoder.columns.node_table.live_rows.tolist():
            if unsent is not None and row not in unsent:
                assert pods_of(copy.decoder.columns, row) == pods_of(self.columns, row)

    @rule()
    def sync(self) -> None:
        for copy in self.copies:
            copy.sync()
        self.synced = True

    @invariant()
    def shards_have_the_leaders_columns(self) -> None:
        if not self.synced:
            return
        for shard, copy in enumerate(self.copies):
            mine = copy.decoder.columns
            owned = [
                r for r in self.columns.node_table.live_rows.tolist() if self.shard(r) == shard
            ]
            assert mine.node_table.live_rows.tolist() == owned
            for row in owned:
                assert facts(mine, row) == facts(self.columns, row)
                assert pods_of(mine, row) == pods_of(self.columns, row)

    def shard(self, row: int) -> int:
        return shard_of(self.columns.names[row], SHARDS)


TestDeltas = DeltasMachine.TestCase
TestDeltas.settings = examples(40, stateful_step_count=30)


def leader() -> tuple[Columns, PodClasses, Copy]:
    columns = Columns()
    columns.add_node(make_node("n0"))
    copy = Copy(columns, shard_of("n0", SHARDS))
    copy.sync()
    return columns, PodClasses(), copy


def test_nothing_is_sent_when_nothing_changed() -> None:
    columns, _, copy = leader()
    assert not copy.sync()
    columns.update_node(make_node("n0"))
    assert not copy.sync()


def test_the_owner_of_a_row_that_stays_due_is_not_asked_for_again() -> None:
    columns = Columns()
    for number in range(5):
        columns.add_node(make_node(f"n{number}"))
    asked: list[str] = []
    encoder = DeltaEncoder(columns, lambda name: not asked.append(name))
    encoder.encode(1)
    encoder.encode(1)
    assert asked == ["n0", "n1", "n2", "n3", "n4"]


def test_a_pod_that_came_and_went_between_two_deltas_is_not_sent() -> None:
    columns, classes, copy = leader()
    pod = info(classes, "p")
    columns.pod_table.add(0, pod)
    columns.pod_table.remove(0, pod)
    assert not copy.sync()


def test_a_pod_that_left_and_came_back_is_last_there_too() -> None:
    columns, classes, copy = leader()
    first, second = info(classes, "first"), info(classes, "second")
    columns.pod_table.add(0, first)
    columns.pod_table.add(0, second)
    copy.sync()
    columns.pod_table.remove(0, first)
    columns.pod_table.add(0, first)
    assert copy.sync()
    assert list(copy.decoder.columns.pods(0)) == [second.uid, first.uid]


def test_a_missing_delta_is_noticed_and_a_restart_mends_it() -> None:
    columns, classes, copy = leader()
    columns.pod_table.add(0, info(classes, "lost"))
    copy.encoder.encode()
    columns.pod_table.add(0, info(classes, "p"))
    with pytest.raises(DeltaGapError):
        copy.sync()
    assert copy.decoder.columns.pod_count[0] == 0
    copy.encoder.restart()
    copy.sync()
    assert copy.decoder.columns.pod_count[0] == 2


def test_the_content_of_a_class_is_sent_once() -> None:
    columns, classes, copy = leader()
    for i in range(2):
        columns.pod_table.add(0, info(classes, f"p{i}"))
        delta = copy.encoder.encode()
        assert delta is not None and len(delta.classes) == (1 if i == 0 else 0)


def test_classes_that_are_gone_are_forgotten() -> None:
    classes, writer = PodClasses(kept=4), ClassWriter()
    for i in range(600):
        writer.id_of(info(classes, "p", labels={"n": str(i)}).cls)
    gc.collect()
    forgotten = writer.take_forgotten()
    assert len(forgotten) > 500
    assert writer.take_forgotten() == ()


def test_the_shard_has_all_of_a_pods_class() -> None:
    columns, classes, copy = leader()
    pod = info(classes, "p", labels={"app": "a"}, priority=3)
    columns.pod_table.add(0, pod)
    copy.sync()
    there = copy.decoder.columns.pods(0)[pod.uid]
    assert there.key == pod.key and class_content(there.cls) == class_content(pod.cls)
    assert there.pod.spec.priority == 3
