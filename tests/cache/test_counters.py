"""Counters and carried terms: when they change, and what happens to those nobody asks for."""

from __future__ import annotations

import pytest

from podsched.cache import counters
from podsched.cache.columns import Columns
from podsched.cache.pod_class import PodClasses
from support.cache_world import Labelled, LabelTerms, info, make_node


def a_column_of(nodes: int = 2) -> tuple[Columns, PodClasses]:
    columns = Columns()
    for i in range(nodes):
        columns.add_node(make_node(f"n{i}"))
    return columns, PodClasses()


def test_a_counter_counts_pods_from_before_and_after_it_was_asked_for() -> None:
    columns, classes = a_column_of()
    columns.add_pod(0, info(classes, "a", labels={"app": "a"}))
    query = Labelled("app", "a")
    assert columns.counter(query).tolist()[:2] == [1, 0]
    columns.add_pod(1, info(classes, "b", labels={"app": "a", "more": "x"}))
    assert columns.counter(query).tolist()[:2] == [1, 1]


def test_a_version_changes_with_the_counts_and_with_nothing_else() -> None:
    columns, classes = a_column_of()
    query = Labelled("app", "a")
    version = columns.counter_version(query)
    columns.add_pod(0, info(classes, "other", labels={"app": "b"}))
    assert columns.counter_version(query) == version
    pod = info(classes, "a", labels={"app": "a"})
    columns.add_pod(0, pod)
    added = columns.counter_version(query)
    columns.remove_pod(0, pod)
    assert len({version, added, columns.counter_version(query)}) == 3


def test_a_pod_that_starts_terminating_leaves_counters_that_skip_such_pods() -> None:
    columns, classes = a_column_of()
    running, all_of_them = Labelled("app", "a"), Labelled("app", "a", terminating=True)
    columns.add_pod(0, info(classes, "p", labels={"app": "a"}))
    columns.counter(running)
    columns.replace_pod(0, info(classes, "p", labels={"app": "a"}, terminating=True))
    assert columns.counter(running)[0] == 0
    assert columns.counter(all_of_them)[0] == 1


def test_counters_nobody_asks_for_are_dropped_and_come_back_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "MAX_BYTES", 0)
    monkeypatch.setattr(counters, "MIN_COUNTERS", 4)
    columns, classes = a_column_of()
    columns.add_pod(0, info(classes, "p", labels={"app": "a"}))
    first = Labelled("app", "a")
    version = columns.counter_version(first)
    for i in range(10):
        columns.add_pod(1, info(classes, f"p{i}", labels={"app": "b"}))
        columns.counter(Labelled("other", str(i)))
    assert len(columns.queries) <= 4
    assert columns.counter(first)[0] == 1
    assert columns.counter_version(first) != version


def test_a_term_is_carried_from_its_first_pod_to_its_last() -> None:
    columns, classes = a_column_of()
    family = LabelTerms()
    versions = [columns.terms_version(family)]
    pods = [info(classes, f"p{i}", labels={"app": "a"}) for i in range(2)]
    columns.add_pod(0, pods[0])
    versions.append(columns.terms_version(family))
    assert list(columns.terms_in_cluster(family)) == [("app", "a")]
    columns.add_pod(1, pods[1])
    columns.remove_pod(0, pods[0])
    assert columns.terms_version(family) == versions[-1]
    query = columns.terms_in_cluster(family)[("app", "a")]
    assert columns.counter(query).tolist()[:2] == [0, 1]
    columns.remove_pod(1, pods[1])
    assert not columns.terms_in_cluster(family)
    assert columns.terms_version(family) not in versions


def test_classes_without_pods_are_swept_and_their_terms_with_them() -> None:
    columns, classes = a_column_of()
    columns.terms_in_cluster(LabelTerms())
    for i in range(2000):
        pod = info(classes, "p", labels={"n": str(i)})
        columns.add_pod(0, pod)
        columns.remove_pod(0, pod)
    assert len(columns.queries) < 600
    pod = info(classes, "p", labels={"n": "0"})
    columns.add_pod(0, pod)
    query = columns.terms_in_cluster(LabelTerms())[("n", "0")]
    assert columns.counter(query)[0] == 1
