"""The domains of a Topology that alike members fill."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.decide.best_fit import Domains
from podsched.queues.domains import place
from podsched.queues.topology import Topology, TopologyNode, TopologyPods, TopologyRequest
from support.engine_world import node
from support.examples import examples

LEVELS = ("example.com/block", "example.com/rack", "kubernetes.io/hostname")
#: Of each node: block, rack, whether it has the labels at all, and how many members fit.
NODES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.booleans(), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


def requests(levels: tuple[str, ...]) -> st.SearchStrategy[TopologyRequest]:
    level = st.sampled_from(levels)
    return st.one_of(
        st.just(TopologyRequest()),
        st.builds(TopologyRequest, required=level),
        st.builds(TopologyRequest, preferred=level),
    )


@examples(1000)
@given(NODES, st.integers(1, 12), st.integers(1, 3), st.data())
def test_the_domains_are_those_of_queue_cases(
    found: list[tuple[str, str, bool, int]], count: int, depth: int, data: st.DataObject
) -> None:
    levels = LEVELS[:depth]
    cache, request = Cache(), data.draw(requests(levels))
    hosts, room = [], []
    for number, (block, rack, is_inside, fits) in enumerate(found):
        name = f"h{number}"
        labels = dict(zip(LEVELS, (block, rack, name), strict=True)) if is_inside else {}
        cache.add_node(node(name, labels=labels))
        hosts.append(TopologyNode(labels, {"pods": fits}))
        room.append(fits)
    columns = cache.columns
    rows = np.zeros(columns.size, dtype=np.int64)
    rows[: len(room)] = room
    level = request.required or request.preferred
    parts, _ = Domains(columns, levels).fill(
        rows,
        count,
        count,
        levels.index(level) if level else None,
        required=request.required is not None,
    )
    wanted = place(Topology("t", levels, hosts), [TopologyPods("main", count, {}, request)])["main"]
    assert sum(part.members for part in parts) == (0 if wanted.reason else count)
    got: Counter[tuple[str, ...]] = Counter()
    for part in parts:
        for name in part.node_names:
            host = hosts[int(name[1:])]
            got[tuple(host.labels[label] for label in levels)] += host.free["pods"]
        # Only the last part may be filled to less than its room.
    if parts:
        *_, last = parts
        one = hosts[int(next(iter(last.node_names))[1:])]
        inside = tuple(one.labels[label] for label in levels)
        got[inside] -= sum(got.values()) - count
    first = len(levels) - 1 if levels[-1] == LEVELS[-1] else 0
    assert {values[first:]: number for values, number in got.items() if number} == dict(
        wanted.domains
    )


def test_as_many_as_fit_are_counted_if_fewer_are_enough() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(node(name, labels={LEVELS[1]: name}))
    domains = Domains(cache.columns, LEVELS[1:2])
    room = np.array([3, 4], dtype=np.int64)
    room = np.concatenate([room, np.zeros(cache.columns.size - 2, dtype=np.int64)])
    assert domains.fill(room, 4, 9, 0, required=True) == ([(frozenset("b"), 4)], 4)
    assert domains.fill(room, 5, 9, 0, required=True) == ((), 4)
    assert domains.fill(room, 5, 9, 0, required=False) == ([(frozenset("ab"), 7)], 7)
