"""Counters and the terms of pods: when they change, and what happens to unused ones."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from podsched.cache import counters
from podsched.cache.class_usage import MOST_KEYS, ClassUsages
from podsched.cache.columns import Columns
from podsched.cache.pod_class import PodClasses
from podsched.cache.pod_counter import TermQuery
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from support.cache_world import Labelled, LabelTerms, info, make_node


def a_column_of(nodes: int = 2) -> tuple[Columns, PodClasses]:
    columns = Columns()
    for i in range(nodes):
        columns.add_node(make_node(f"n{i}"))
    return columns, PodClasses()


def test_a_counter_counts_pods_from_before_and_after_it_was_asked_for() -> None:
    columns, classes = a_column_of()
    columns.pod_table.add(0, info(classes, "a", labels={"app": "a"}))
    query = Labelled("app", "a")
    assert columns.counter(query).tolist()[:2] == [1, 0]
    columns.pod_table.add(1, info(classes, "b", labels={"app": "a", "more": "x"}))
    assert columns.counter(query).tolist()[:2] == [1, 1]


class CountedLabel(Labelled):
    """Reads no requests, and notes whom it was asked about."""

    reads_requests = False
    asked: ClassVar[list[str]] = []

    def counts(self, pod: PodInfo) -> int:
        self.asked.append(pod.name)
        return super().counts(pod)


class SmallPods(Labelled):
    """Counts the pods with the label that request little."""

    def counts(self, pod: PodInfo) -> int:
        return super().counts(pod) if pod.cls.requests.get("cpu", 0) < 100 else 0


def test_a_query_that_reads_no_requests_is_put_once_to_pods_that_differ_in_nothing_else() -> None:
    columns, classes = a_column_of()
    CountedLabel.asked.clear()
    query, small = CountedLabel("app", "a"), SmallPods("app", "b")
    for asked in (query, small):
        columns.counter(asked)
    for number in range(4):
        requests = {"cpu": f"{50 * number}m"}
        for label in "ab":
            pod = info(classes, f"{label}{number}", labels={"app": label}, requests=requests)
            columns.pod_table.add(number % 2, pod)
    assert columns.counter(query).tolist()[:2] == [2, 2]
    assert CountedLabel.asked == ["a0", "b0"]
    assert columns.counter(small).tolist()[:2] == [1, 1]


class Requiring(CountedLabel):
    """Tells which label it requires."""

    @property
    def required_label(self) -> tuple[str, str]:
        return self.key, self.value


def test_a_query_that_requires_a_label_is_put_to_no_pod_without_it() -> None:
    columns, classes = a_column_of()
    CountedLabel.asked.clear()
    query = Requiring("app", "a")
    columns.counter(query)
    for name, labels in {"a": {"app": "a", "n": "1"}, "b": {"app": "b"}, "none": {}}.items():
        columns.pod_table.add(0, info(classes, name, labels=labels))
    assert columns.counter(query)[0] == 1
    assert CountedLabel.asked == ["a"]


def test_a_new_query_that_requires_a_label_is_put_only_to_pods_with_it() -> None:
    columns, classes = a_column_of()
    CountedLabel.asked.clear()
    for name, labels in {"a": {"app": "a"}, "b": {"app": "b"}, "none": {}}.items():
        columns.pod_table.add(0, info(classes, name, labels=labels))
    assert columns.counter(Requiring("app", "a"))[0] == 1
    columns.pod_table.add(0, info(classes, "b2", labels={"app": "b", "n": "2"}))
    assert columns.counter(Requiring("app", "b"))[0] == 2
    assert columns.counter(Requiring("n", "2"))[0] == 1
    assert CountedLabel.asked == ["a", "b", "b2", "b2"]


def test_a_new_query_is_not_put_to_classes_that_were_swept() -> None:
    columns, classes = a_column_of()
    columns.counter(Requiring("app", "a"))
    CountedLabel.asked.clear()
    for i in range(2000):
        pod = info(classes, "p", labels={"app": str(i)})
        columns.pod_table.add(0, pod)
        columns.pod_table.remove(0, pod)
    columns.pod_table.add(0, info(classes, "new", labels={"app": "1"}))
    assert columns.counter(Requiring("app", "1"))[0] == 1
    assert CountedLabel.asked == ["new"]


def test_a_version_changes_with_the_counts_and_with_nothing_else() -> None:
    columns, classes = a_column_of()
    query = Labelled("app", "a")
    version = columns.counter_version(query)
    columns.pod_table.add(0, info(classes, "other", labels={"app": "b"}))
    assert columns.counter_version(query) == version
    pod = info(classes, "a", labels={"app": "a"})
    columns.pod_table.add(0, pod)
    added = columns.counter_version(query)
    columns.pod_table.remove(0, pod)
    assert len({version, added, columns.counter_version(query)}) == 3


def test_a_pod_that_starts_terminating_leaves_counters_that_skip_such_pods() -> None:
    columns, classes = a_column_of()
    running, all_of_them = Labelled("app", "a"), Labelled("app", "a", terminating=True)
    columns.pod_table.add(0, info(classes, "p", labels={"app": "a"}))
    columns.counter(running)
    columns.pod_table.replace(0, info(classes, "p", labels={"app": "a"}, terminating=True))
    assert columns.counter(running)[0] == 0
    assert columns.counter(all_of_them)[0] == 1


def test_unused_counters_are_dropped_and_come_back_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "MAX_BYTES", 0)
    monkeypatch.setattr(counters, "MIN_COUNTERS", 4)
    columns, classes = a_column_of()
    columns.pod_table.add(0, info(classes, "p", labels={"app": "a"}))
    first = Labelled("app", "a")
    version = columns.counter_version(first)
    for i in range(10):
        columns.pod_table.add(1, info(classes, f"p{i}", labels={"app": "b"}))
        columns.counter(Labelled("other", str(i)))
    assert len(columns.pod_table.counters.table.of) <= 4
    assert columns.counter(first)[0] == 1
    assert columns.counter_version(first) != version


def test_a_term_is_carried_from_its_first_pod_to_its_last() -> None:
    columns, classes = a_column_of()
    family = LabelTerms()
    versions = [columns.terms_version(family)]
    pods = [info(classes, f"p{i}", labels={"app": "a"}) for i in range(2)]
    columns.pod_table.add(0, pods[0])
    versions.append(columns.terms_version(family))
    assert list(columns.terms_in_cluster(family)) == [("app", "a")]
    columns.pod_table.add(1, pods[1])
    columns.pod_table.remove(0, pods[0])
    assert columns.terms_version(family) == versions[-1]
    query = columns.terms_in_cluster(family)[("app", "a")]
    assert columns.counter(query).tolist()[:2] == [0, 1]
    columns.pod_table.remove(1, pods[1])
    assert not columns.terms_in_cluster(family)
    assert columns.terms_version(family) not in versions


def test_a_term_that_was_asked_for_before_any_pod_had_it_is_counted_once() -> None:
    columns, classes = a_column_of()
    query = TermQuery(LabelTerms(), ("app", "a"))
    assert columns.counter(query)[0] == 0
    columns.pod_table.add(0, info(classes, "a", labels={"app": "a"}))
    assert columns.counter(query)[0] == 1


def test_classes_without_pods_are_swept_and_their_terms_with_them() -> None:
    columns, classes = a_column_of()
    columns.terms_in_cluster(LabelTerms())
    for i in range(2000):
        pod = info(classes, "p", labels={"n": str(i)})
        columns.pod_table.add(0, pod)
        columns.pod_table.remove(0, pod)
    assert len(columns.pod_table.counters.table.of) < 600
    pod = info(classes, "p", labels={"n": "0"})
    columns.pod_table.add(0, pod)
    query = columns.terms_in_cluster(LabelTerms())[("n", "0")]
    assert columns.counter(query)[0] == 1


class SumsMachine(RuleBasedStateMachine):
    """Pods come and go, one by one and several at once, on nodes that increase in number."""

    def __init__(self) -> None:
        super().__init__()
        self.columns, self.classes = a_column_of(nodes=3)
        self.query = Labelled("app", "a")
        self.groups = self._grouped()
        self.pods: list[tuple[int, PodInfo]] = []
        self.number = 0

    def _grouped(self) -> Rows:
        return np.arange(self.columns.size, dtype=np.intp) % 3

    def _pod(self, app: str) -> PodInfo:
        self.number += 1
        return info(self.classes, f"p{self.number}", labels={"app": app})

    @rule(row=st.integers(0, 2), app=st.sampled_from("ab"))
    def add(self, row: int, app: str) -> None:
        self.pods.append((row, self._pod(app)))
        self.columns.pod_table.add(*self.pods[-1])

    @rule(rows=st.sets(st.integers(0, 2), min_size=1), app=st.sampled_from("ab"))
    def add_several(self, rows: set[int], app: str) -> None:
        added = [(row, self._pod(app)) for row in sorted(rows)]
        self.columns.pod_table.add_many(
            np.array(sorted(rows), dtype=np.intp), [pod for _, pod in added]
        )
        self.pods += added

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.columns.pod_table.remove(*self.pods.pop(data.draw(st.integers(0, len(self.pods) - 1))))

    @rule()
    def add_nodes_until_the_columns_grow(self) -> None:
        size = self.columns.size
        while self.columns.size == size < 100:
            self.number += 1
            self.columns.add_node(make_node(f"more-{self.number}"))
        self.groups = self._grouped()

    @rule()
    def group_anew(self) -> None:
        self.groups = self._grouped()

    @invariant()
    def sums_are_those_of_the_counts(self) -> None:
        counts = self.columns.counter(self.query)
        sums = self.columns.counter_sums(self.query, self.groups, 4)
        assert sums.tolist() == np.bincount(self.groups, counts, 4).tolist()


def test_sums_over_groups_stay_those_of_the_counts() -> None:
    run_state_machine_as_test(SumsMachine)


def test_sums_belong_to_their_caller() -> None:
    columns, _ = a_column_of()
    query, groups = Labelled("app", "a"), np.zeros(columns.size, dtype=np.intp)
    columns.counter_sums(query, groups, 1)[0] = 7
    assert columns.counter_sums(query, groups, 1).tolist() == [0]


def test_made_up_label_keys_take_no_memory() -> None:
    usages = ClassUsages()
    for number in range(2 * MOST_KEYS):
        assert not list(usages.with_label((f"key-{number}", "a")))
    assert len(usages._by_label) <= MOST_KEYS
