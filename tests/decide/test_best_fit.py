"""The domains of a Topology that equal members fill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.cache import Cache
from podsched.decide.best_fit import Domains, Part, Slices
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


def sorted_by(levels: tuple[str, ...]) -> Callable[[list[str]], list[str]]:
    """Sorts levels, the narrowest first."""
    return lambda found: sorted(found, key=levels.index, reverse=True)


@st.composite
def requests(draw: st.DrawFn, levels: tuple[str, ...]) -> TopologyRequest:
    """A level or none, perhaps with slices of this level or lower ones."""
    level = draw(st.none() | st.sampled_from(levels))
    lower = levels[levels.index(level) :] if level else levels
    narrow_first = draw(st.lists(st.sampled_from(lower), unique=True).map(sorted_by(levels)))
    slices, size = list[tuple[str, int]](), 1
    for one in narrow_first:
        size *= draw(st.integers(1, 3))
        slices.insert(0, (one, size))
    if draw(st.booleans()):
        return TopologyRequest(required=level, slices=tuple(slices))
    return TopologyRequest(preferred=level, slices=tuple(slices))


@examples(1000)
@given(NODES, st.integers(1, 12), st.integers(1, 3), st.data())
def test_the_domains_are_those_of_queue_cases(
    found: list[tuple[str, str, bool, int]], count: int, depth: int, data: st.DataObject
) -> None:
    levels = LEVELS[:depth]
    cache, request = Cache(), data.draw(requests(levels))
    # In queue cases pods beyond the last whole slice get no place.
    for _, size in request.slices[:1]:
        count = max(1, count // size) * size
    hosts, room = [], []
    for number, (block, rack, is_inside, fits) in enumerate(found):
        name = f"h{number}"
        labels = dict(zip(LEVELS, (block, rack, name), strict=True)) if is_inside else {}
        cache.placed.add_node(node(name, labels=labels))
        hosts.append(TopologyNode(labels, {"pods": fits}))
        room.append(fits)
    columns = cache.columns
    rows = np.zeros(columns.size, dtype=np.int64)
    rows[: len(room)] = room
    level = request.required or request.preferred
    held = np.zeros(columns.size, dtype=np.int64)
    layers = [(levels.index(label), size) for label, size in request.slices]
    parts, _ = Domains(columns, levels).fill(
        rows,
        count,
        count,
        levels.index(level) if level else None,
        required=request.required is not None,
        slices=Slices(layers, held) if layers else None,
    )
    wanted = place(Topology("t", levels, hosts), [TopologyPods("main", count, {}, request)])["main"]
    assert sum(part.members for part in parts) == (0 if wanted.reason else count)
    got: Counter[tuple[str, ...]] = Counter()
    for part in parts:
        has_room: Counter[tuple[str, ...]] = Counter()
        for name in part.node_names:
            host = hosts[int(name[1:])]
            has_room[tuple(host.labels[label] for label in levels)] += host.free["pods"]
        # Several domains are filled; one domain may be filled to less than its room.
        if len(has_room) == 1:
            has_room = Counter(dict.fromkeys(has_room, part.members))
        assert sum(has_room.values()) == part.members
        got += has_room
    first = len(levels) - 1 if levels[-1] == LEVELS[-1] else 0
    assert {values[first:]: number for values, number in got.items() if number} == dict(
        wanted.domains
    )


def test_as_many_as_fit_are_counted_if_fewer_are_enough() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.placed.add_node(node(name, labels={LEVELS[1]: name}))
    domains = Domains(cache.columns, LEVELS[1:2])
    room = np.array([3, 4], dtype=np.int64)
    room = np.concatenate([room, np.zeros(cache.columns.size - 2, dtype=np.int64)])
    assert domains.fill(room, 4, 9, 0, required=True) == ([(frozenset("b"), 4)], 4)
    assert domains.fill(room, 5, 9, 0, required=True) == ((), 4)
    assert domains.fill(room, 5, 9, 0, required=False) == ([(frozenset("ab"), 7)], 7)


def racks(**cpus: int) -> tuple[Domains, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The domains of hosts in racks, and for how many members each has room.

    The first letter of a name is the rack.
    """
    cache = Cache()
    for name in cpus:
        cache.placed.add_node(node(name, labels={LEVELS[1]: name[0], LEVELS[2]: name}))
    room = np.zeros(cache.columns.size, dtype=np.int64)
    room[: len(cpus)] = list(cpus.values())
    return Domains(cache.columns, LEVELS[1:]), room


@examples(500)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 3)),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(0, 1),
)
def test_members_that_come_later_split_no_slice(
    found: list[tuple[str, int, int]], most: int, size: int, level: int
) -> None:
    """Of each host: its rack, how many members have room, and how many run."""
    names = [f"{rack}{number}" for number, (rack, *_) in enumerate(found)]
    left = {name: cpus for name, (_, cpus, _) in zip(names, found, strict=True)}
    domains, room = racks(**left)
    held = np.zeros_like(room)
    held[: len(found)] = [runs for *_, runs in found]
    parts = domains.fill(
        room, 1, most, None, required=False, slices=Slices([(level, size)], held)
    ).parts
    before, placed = Counter[str](), Counter[str]()
    for name, (rack, _, runs) in zip(names, found, strict=True):
        before[name if level else rack] += runs
    for part in parts:
        has_room = {name: left[name] for name in part.node_names}
        assert 0 < part.members <= sum(has_room.values())
        # Of several domains all are filled.
        if len(part.node_names) == 1:
            has_room = dict.fromkeys(has_room, part.members)
        assert sum(has_room.values()) == part.members
        for name, number in has_room.items():
            left[name] -= number
            placed[name if level else name[0]] += number
    assert sum(placed.values()) <= most
    lack = {domain: -runs % size for domain, runs in before.items()}
    beyond = {d: number - lack[d] for d, number in placed.items() if number > lack[d]}
    assert sum(number % size != 0 for number in beyond.values()) <= 1
    # Members that run in part are completed first.
    assert sum(beyond.values()) <= max(0, most - sum(lack.values()))


def test_the_last_slice_may_have_fewer_members() -> None:
    domains, room = racks(a1=3, b1=2)
    slices = Slices([(0, 2)], np.zeros_like(room))
    found = domains.fill(room, 3, 3, None, required=False, slices=slices)
    assert found.parts == [Part(frozenset({"b1"}), 2), Part(frozenset({"a1"}), 1)]


def test_members_that_come_later_complete_slices_before_they_form_others() -> None:
    """Of two members of rack a, one is gone; rack b has more room."""
    domains, room = racks(a1=0, a2=1, b1=4)
    held = np.zeros_like(room)
    held[0] = 1
    slices = Slices([(0, 2)], held)
    found = domains.fill(room, 1, 1, None, required=False, slices=slices)
    assert found.parts == [Part(frozenset({"a2"}), 1)]
    found = domains.fill(room, 3, 3, None, required=False, slices=slices)
    assert found.parts == [Part(frozenset({"a2"}), 1), Part(frozenset({"b1"}), 2)]


def test_a_member_that_is_missing_in_a_slice_goes_to_no_other_domain() -> None:
    domains, room = racks(a1=0, b1=4)
    held = np.zeros_like(room)
    held[0] = 1
    found = domains.fill(room, 1, 1, None, required=False, slices=Slices([(0, 2)], held))
    assert found == ((), 0)


def test_members_that_come_later_complete_slices_of_all_layers_the_narrowest_first() -> None:
    """A rack takes four members, each host two: of seven members of racks a and b, two are gone."""
    domains, room = racks(a1=1, a2=2, b1=0, b2=3, c1=4)
    held = np.zeros_like(room)
    held[:4] = [1, 0, 2, 1]
    slices = Slices([(0, 4), (1, 2)], held)
    found = domains.fill(room, 1, 4, None, required=False, slices=slices).parts
    assert Counter({name: part.members for part in found for name in part.node_names}) == {
        "a1": 1, "b2": 1, "a2": 2
    }  # fmt: skip
