"""Objects by node, and columns of them: kept current by what changes, and by rows alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.v1 import objects_pb2 as v1
from support.cache_world import make_node
from support.examples import examples

KIND = "VolumeAttachment"
NODES = st.sampled_from(["", "n0", "n1", "n2"])


def attachment(name: str, node: str) -> v1.VolumeAttachment:
    made = v1.VolumeAttachment()
    made.metadata.name, made.spec.node_name = name, node
    return made


def node_of(one: v1.VolumeAttachment) -> str:
    return one.spec.node_name


def plus_one(objects: Collection[Any]) -> int:
    return len(objects) + 1


def test_a_change_of_an_object_is_one_of_the_rows_of_its_nodes_alone() -> None:
    cache = Cache()
    for number in range(4):
        cache.apply("Node", None, make_node(f"n{number}"))
    found = cache.cluster.by_node(KIND, node_of)
    assert found.column(plus_one)[:4].tolist() == [1, 1, 1, 1]
    position = cache.columns.position
    cache.apply(KIND, None, attachment("a", "n1"))
    cache.apply(KIND, attachment("a", "n1"), attachment("a", "n2"))
    cache.apply(KIND, None, attachment("b", "elsewhere"))
    changed = cache.columns.changed_since(position)
    assert changed is not None and changed.tolist() == [1, 2]
    assert found.column(plus_one)[:4].tolist() == [1, 1, 2, 1]
    assert list(found.nodes) == ["n2", "elsewhere"]
    assert cache.cluster.by_node(KIND, node_of) is found


class ByNodeMachine(RuleBasedStateMachine):
    """Nodes, objects and trials in any order; what was built first is read all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.found = self.cache.cluster.by_node(KIND, node_of)
        self.trials: list[Trial] = []

    @rule(name=st.sampled_from("abc"), node=NODES)
    def put(self, name: str, node: str) -> None:
        old = self.cache.cluster.get(KIND, "", name)
        self.cache.apply(KIND, old, attachment(name, node))

    @rule(name=st.sampled_from("abc"))
    def delete(self, name: str) -> None:
        if (old := self.cache.cluster.get(KIND, "", name)) is not None:
            self.cache.apply(KIND, old, None)

    @rule(name=st.sampled_from(["n0", "n1", "n2"]), there=st.booleans())
    def node(self, name: str, there: bool) -> None:
        old = self.cache.cluster.get("Node", "", name)
        if there:
            self.cache.apply("Node", old, make_node(name))
        elif old is not None:
            self.cache.apply("Node", old, None)

    @precondition(lambda self: len(self.trials) < 2)
    @rule()
    def begin(self) -> None:
        self.trials.append(Trial(self.cache))

    @precondition(lambda self: self.trials)
    @rule(commit=st.booleans())
    def end(self, commit: bool) -> None:
        trial = self.trials.pop()
        trial.commit() if commit else trial.roll_back()

    @precondition(lambda self: self.trials)
    @rule(name=st.sampled_from("abc"), node=st.one_of(st.none(), NODES))
    def try_object(self, name: str, node: str | None) -> None:
        if node is None:
            self.trials[-1].delete(KIND, "", name)
        else:
            self.trials[-1].put(KIND, attachment(name, node))

    @precondition(lambda self: self.trials)
    @rule(name=st.sampled_from(["n0", "n1", "n2"]), there=st.booleans())
    def try_node(self, name: str, there: bool) -> None:
        if there:
            self.trials[-1].put_node(make_node(name))
        else:
            self.trials[-1].remove_node(name)

    @rule()
    def read(self) -> None:
        self.found.column(plus_one)

    @invariant()
    def it_is_what_it_would_be_if_it_were_built_now(self) -> None:
        now = self.cache.copy().cluster.by_node(KIND, node_of)
        assert set(self.found.nodes) == set(now.nodes)
        for name in now.nodes:
            assert len(self.found.of(name)) == len(now.of(name))

    @rule()
    def columns_are_what_they_would_be(self) -> None:
        now = self.cache.copy().cluster.by_node(KIND, node_of)
        alive = self.cache.columns.node_table.live_rows
        np.testing.assert_array_equal(
            self.found.column(plus_one)[alive], now.column(plus_one)[alive]
        )


TestByNode = ByNodeMachine.TestCase
TestByNode.settings = examples(100, stateful_step_count=30)
