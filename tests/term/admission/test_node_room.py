"""The bound of what nodes have room for at later times."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.term.admission.node_room import NodeRoom
from support.cache_world import info, make_node

NODES = ("n0", "n1", "n2")
amounts = st.fixed_dictionaries({"cpu": st.integers(0, 4000), "memory": st.integers(0, 4000)})
by_node = st.dictionaries(st.sampled_from((*NODES, "gone")), amounts)


@given(
    st.lists(st.tuples(st.floats(0, 9), st.sampled_from(NODES), amounts), max_size=4),
    st.lists(by_node, max_size=2),
    st.lists(st.integers(0, 3000), min_size=1, max_size=2),
    st.lists(st.floats(0, 9), min_size=1, max_size=3),
)
def test_as_many_pods_may_fit_as_the_free_amounts_of_each_node_have_room_for(
    endings: list[tuple[float, str, dict[str, int]]],
    kept: list[dict[str, dict[str, int]]],
    cpus: list[int],
    times: list[float],
) -> None:
    cache = Cache()
    for name in NODES:
        cache.apply("Node", None, make_node(name, allocatable={"cpu": "4", "memory": "4000"}))
    endings.sort(key=lambda one: one[0])
    requests = [{"cpu": f"{cpu}m"} for cpu in cpus]
    classes = [info(cache.classes, f"p{i}", requests=r).cls for i, r in enumerate(requests)]
    pods = dict.fromkeys(classes, 3)
    room = NodeRoom(cache.cluster.nodes, endings, pods)
    for at in sorted(times):
        expected = 0
        for cls, count in pods.items():
            fit = 0
            for name in NODES:
                free = Counter(cpu=4000, memory=4000)
                for end, node, ended in endings:
                    free.update(ended if node == name and end <= at else {})
                for one in kept:
                    free.subtract(one.get(name, {}))
                ratios = [free[r] // number for r, number in cls.requests.items() if number]
                fit += max(0, min([count, *ratios]))
            expected += min(count, fit)
        assert room.may_fit(expected, at, kept)
        assert not room.may_fit(expected + 1, at, kept)
