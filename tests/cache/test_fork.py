"""A fork reads like columns on which the same pods were changed, and leaves its base alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.columns import Columns
from podsched.cache.fork import Fork
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.pods import PodInfo
from support.cache_world import (
    ZONE,
    Labelled,
    LabelTerms,
    info,
    make_node,
    make_pod,
    plain_ports,
    plain_usage,
)
from support.examples import examples

SHAPES = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from(["app", "twice"]), st.sampled_from(["a", "b"])),
        "requests": st.sampled_from([{}, {"cpu": "1"}, {"memory": "1Gi", "x.io/gpu": "1"}]),
        "priority": st.sampled_from([0, 5, 10]),
        "host_port": st.sampled_from([0, 80]),
        "terminating": st.booleans(),
    }
)
QUERIES = (Labelled("app", "a"), Labelled("app", "a", terminating=True), Labelled("twice", "b"))
NODES = 4


def cluster(shapes: list[tuple[int, dict[str, Any]]], classes: PodClasses) -> Columns:
    columns = Columns()
    for i in range(NODES):
        columns.add_node(make_node(f"n{i}", labels={ZONE: f"z{i % 2}"}, images={"app:1": i + 1}))
    for i, (row, shape) in enumerate(shapes):
        columns.pod_table.add(row, make_pod_info(make_pod(f"p{i}", **shape), classes))
    return columns


def assert_reads_like(fork: Fork, expected: list[dict[str, PodInfo]]) -> None:
    base = fork.base
    for row, pods in enumerate(expected):
        values = list(pods.values())
        assert dict(fork.pods(row)) == pods
        for column, amount in plain_usage(values).items():
            assert int(fork.requested(column)[row]) == amount, column
        assert dict(fork.used_ports(row)) == plain_ports(values)
        for query in QUERIES:
            count = sum(map(query.counts, values))
            assert int(fork.counter(query)[row]) == count
            difference = count - int(base.counter(query)[fork.base_rows[row]])
            assert int(fork.own_delta(query)[row]) == difference
        for term, carried in fork.terms_in_cluster(LabelTerms()).items():
            carriers = sum(list(LabelTerms().terms(pod)).count(term) for pod in values)
            assert int(fork.counter(carried)[row]) == carriers
        terms = {term for pod in values for term in LabelTerms().terms(pod)}
        assert terms <= set(fork.terms_in_cluster(LabelTerms()))
    with_ports = [row for row, pods in enumerate(expected) if plain_ports(pods.values())]
    assert fork.rows_with_ports.tolist() == with_ports


@examples(60)
@given(data=st.data())
def test_a_fork_equals_a_plain_reading_of_its_pods(data: st.DataObject) -> None:
    classes = PodClasses()
    placed = st.lists(st.tuples(st.integers(0, NODES - 1), SHAPES), max_size=10)
    columns = cluster(data.draw(placed), classes)
    before = [dict(columns.pods(row)) for row in range(NODES)]
    rows = np.array(data.draw(st.lists(st.integers(0, NODES - 1), min_size=1, max_size=5)))
    fork = columns.fork(rows)
    expected = [dict(before[row]) for row in rows.tolist()]
    for step in range(data.draw(st.integers(0, 8))):
        row = data.draw(st.integers(0, len(rows) - 1))
        what = data.draw(st.sampled_from(["add", "remove", "re-add", "ask", "fork"]))
        back = {u: p for u, p in before[int(fork.base_rows[row])].items() if u not in expected[row]}
        if what == "add":
            pod = make_pod_info(make_pod(f"new{step}", **data.draw(SHAPES)), classes)
            fork.add_pod(row, pod)
            expected[row][pod.uid] = pod
        elif what == "remove" and expected[row]:
            pod = expected[row].pop(data.draw(st.sampled_from(sorted(expected[row]))))
            fork.remove_pod(row, pod)
        elif what == "re-add" and back:
            pod = back[data.draw(st.sampled_from(sorted(back)))]
            fork.add_pod(row, pod)
            expected[row][pod.uid] = pod
        elif what == "ask":
            fork.own_delta(data.draw(st.sampled_from(QUERIES)))
        elif what == "fork":
            picked = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4))
            fork = fork.fork(np.array(picked))
            rows = rows[picked]
            expected = [dict(expected[row]) for row in picked]
    assert_reads_like(fork, expected)
    assert [dict(columns.pods(row)) for row in range(NODES)] == before


def test_a_fork_shows_the_node_of_each_row() -> None:
    columns = cluster([], PodClasses())
    fork = columns.fork(np.array([3, 1, 3]))
    assert list(fork.names) == ["n3", "n1", "n3"]
    assert fork.row_of("n3") == 0 and fork.row_of("n0") is None
    assert fork.node(1).metadata.name == "n1"
    assert [fork.value(int(i)) for i in fork.label(ZONE)] == ["z1", "z1", "z1"]
    rows, sizes = fork.image_rows("app:1")
    assert (rows.tolist(), sizes.tolist()) == ([0, 1, 2], [4, 2, 4])
    assert fork.allocatable("cpu").tolist() == [4000] * 3 and fork.alive.all()


def test_copies_of_a_pod_count_on_all_rows_at_once() -> None:
    classes = PodClasses()
    columns = cluster([(0, {"labels": {"app": "a"}})], classes)
    pod = info(classes, "new", labels={"app": "a"}, requests={"cpu": "1"}, host_port=80)
    fork = columns.fork(np.array([0, 1]))
    query = QUERIES[0]
    fork.own_delta(query)
    fork.add_copies(pod, np.array([2, 0]))
    assert fork.pod_count.tolist() == [3, 0]
    assert fork.requested("cpu").tolist() == [2100, 0]
    assert fork.own_delta(query).tolist() == [2, 0]
    assert fork.own_delta(QUERIES[1]).tolist() == [2, 0]
    assert fork.fork(np.array([1, 0])).own_delta(query).tolist() == [0, 2]
    assert dict(fork.used_ports(0)) == {("0.0.0.0", "TCP", 80): 2}


def test_removing_a_terminating_pod_shows_in_counts_that_include_such_pods() -> None:
    classes = PodClasses()
    columns = cluster([(0, {"labels": {"app": "a"}, "terminating": True})], classes)
    fork = columns.fork(np.array([0]))
    fork.remove_pod(0, next(iter(fork.pods(0).values())))
    assert fork.own_delta(QUERIES[0])[0] == 0
    assert fork.own_delta(QUERIES[1])[0] == -1


def test_ports_freed_on_a_fork_are_free_even_after_they_were_looked_at() -> None:
    classes = PodClasses()
    columns = cluster([], classes)
    fork = columns.fork(np.array([0]))
    pods = [info(classes, f"p{port}", host_port=port) for port in (80, 81)]
    for pod in pods:
        fork.add_pod(0, pod)
        assert ("0.0.0.0", "TCP", int(pod.name[1:])) in fork.used_ports(0)
    fork.remove_pod(0, pods[0])
    assert dict(fork.used_ports(0)) == {("0.0.0.0", "TCP", 81): 1}
