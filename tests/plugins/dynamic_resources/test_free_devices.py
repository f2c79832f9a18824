"""Columns of free devices tell the same as the allocator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podsched.api import codec
from podsched.cache.columns import Columns
from podsched.lab.bench.shapes import node as make_node
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.cases import read_allocated_state
from podsched.plugins.dynamic_resources.devices import Content, Devices
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.free_devices import DevicesAhead, Fitting, FreeDevices
from podsched.plugins.dynamic_resources.in_use import Use
from podsched.plugins.dynamic_resources.model import (
    DeviceID,
    Features,
    Node,
    NodeSelection,
    PoolKey,
    ResourceClaim,
    ResourceSlice,
)
from podsched.plugins.dynamic_resources.selectors import RememberedSelectors
from podsched.v1 import objects_pb2 as v1
from support.device_world import (
    DRIVER,
    AttributeSelector,
    Document,
    cases,
    read_claim,
    read_class,
    read_slice,
)
from support.examples import examples

NODE = Node(name="node")


def by_pool(slices: Sequence[ResourceSlice]) -> dict[PoolKey, list[ResourceSlice]]:
    found: dict[PoolKey, list[ResourceSlice]] = {}
    for piece in sorted(slices, key=lambda of: of.name):
        found.setdefault((piece.driver, piece.pool), []).append(piece)
    return found


def without_counters(slices: Sequence[Document]) -> list[Document]:
    """Leave out counters that no device takes of, as most drivers publish none."""
    found = []
    for counters, devices in zip(slices[::2], slices[1::2], strict=True):
        spec = devices["spec"]
        if any("consumesCounters" in of for of in spec["devices"]):
            found += [counters, devices]
        else:
            pool = spec["pool"] | {"resourceSliceCount": 1}
            found.append(devices | {"spec": spec | {"pool": pool}})
    return found


class Situation:
    """The devices of a case, as the allocator and as columns have them."""

    def __init__(self, case: Document) -> None:
        classes = {of["metadata"]["name"]: read_class(of) for of in case["classes"]}
        self.devices = Devices(classes, 1)
        self.numbers = itertools.count()
        self.slices = [read_slice(of) for of in without_counters(case["slices"])]
        for key, slices in by_pool(self.slices).items():
            self.put(key, slices)
        self.claims = [read_claim(of) for of in case["claims"]]
        self.in_use = self.devices.in_use
        for pool, devices in read_allocated_state(case["allocated"]).items():
            for name, use in devices.items():
                device = DeviceID(*pool, name)
                self.in_use.put(("", name), [(device, use.capacity)])
        self.selectors = RememberedSelectors(AttributeSelector)
        self.nodes = Columns()
        self.nodes.add_node(make_node("other"))
        self.nodes.add_node(make_node("node"))
        self.free = FreeDevices(self.selectors)

    def put(self, key: PoolKey, slices: Sequence[ResourceSlice]) -> None:
        self.devices.put(key, [(of, Content(next(self.numbers), of)) for of in slices])

    def fitting(self, free: FreeDevices | None = None) -> Fitting | None:
        return (free or self.free).fitting(self.claims, self.devices, self.nodes)

    def fresh(self) -> Fitting | None:
        """What columns tell that are made anew, as are the results for slices."""
        for pool in self.devices.pools.values():
            for content in pool.contents:
                content.suiting.clear()
        return self.fitting(FreeDevices(self.selectors))

    def search(self, claims: Sequence[ResourceClaim]) -> Any:
        """Return the allocations, None, or the error's text."""
        in_use = self.in_use.by_pool
        candidates = Candidates(
            NODE, self.devices.classes, self.slices, in_use, Features(), AttributeSelector
        )
        try:
            found = Allocator(candidates).allocate(claims)
        except AllocationError as error:
            return str(error)
        return None if found is None else [codec.write(of) for of in found]

    def check(self) -> bool:
        """Compare; return whether the columns were sure."""
        expected = self.search(self.claims)
        row = self.nodes.row_of("node")
        assert row is not None
        fitting = self.fitting()
        allocation = self.free.allocate(self.claims, self.devices, self.nodes, row)
        if fitting is None:
            assert allocation is None
            return False
        if not fitting.fits[row]:
            assert expected is None
        found = None if allocation is None else [codec.write(allocation)]
        assert found == (None if fitting.unsure[row] else expected)
        return not fitting.unsure[row]


USES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.lists(
            st.tuples(st.sampled_from(["pool-0", "pool-1"]), st.integers(0, 5), st.booleans()),
            max_size=2,
        ),
    ),
    max_size=6,
)


@examples(400)
@given(cases(), USES)
def test_columns_tell_what_the_allocator_finds(
    case: Document, changes: list[tuple[str, list[tuple[str, int, bool]]]]
) -> None:
    """Also after claims have got devices and given them back."""
    situation = Situation(case)
    situation.check()
    for claim, devices in changes:
        uses: list[Use] = [
            (DeviceID(DRIVER, pool, f"dev-{number}"), {"memory": Fraction(1)} if shared else None)
            for pool, number, shared in devices
        ]
        situation.in_use.put(("", claim), uses)
        situation.check()
        now, again = situation.fitting(), situation.fresh()
        assert (again is None) == (now is None)
        if again is not None and now is not None:
            assert again.fits.tolist() == now.fits.tolist()
            assert again.unsure.tolist() == now.unsure.tolist()


@examples(200)
@given(cases(), st.lists(st.tuples(cases(), USES), max_size=3))
def test_columns_follow_the_slices_of_pools(
    case: Document,
    changes: list[tuple[Document, list[tuple[str, list[tuple[str, int, bool]]]]]],
) -> None:
    """Columns that pools are put into one after another equal those that are made anew."""
    situation = Situation(case)
    situation.check()
    for other, used in changes:
        before = by_pool(situation.slices)
        situation.slices = Situation(other).slices
        now = by_pool(situation.slices)
        for claim, devices in used:
            uses: list[Use] = [
                (DeviceID(DRIVER, pool, f"dev-{n}"), {"memory": Fraction(1)} if shared else None)
                for pool, n, shared in devices
            ]
            situation.in_use.put(("", claim), uses)
        for key in {**before, **now}:
            situation.put(key, now.get(key, []))
        situation.check()
        kept, again = situation.fitting(), situation.fresh()
        assert (again is None) == (kept is None)
        if again is not None and kept is not None:
            assert again.fits.tolist() == kept.fits.tolist()
            assert again.unsure.tolist() == kept.unsure.tolist()
            assert (again.left is None) == (kept.left is None)
            if again.left is not None and kept.left is not None:
                assert again.left.tolist() == kept.left.tolist()


def plain(count: int = 1, in_use: Sequence[str] = ()) -> Document:
    devices = [{"name": f"dev-{n}", "attributes": {"model": {"string": "x"}}} for n in range(3)]
    pool = {"name": "pool-0", "generation": 1, "resourceSliceCount": 2}
    of_pool = {"driver": DRIVER, "pool": pool, "nodeName": "node"}
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count}
    return {
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": [
            {"metadata": {"name": "c"}, "spec": of_pool},
            {"metadata": {"name": "d"}, "spec": of_pool | {"devices": devices}},
        ],
        "allocated": {
            "devices": [{"driver": DRIVER, "pool": "pool-0", "device": name} for name in in_use]
        },
        "claims": [
            {
                "metadata": {"name": "c"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            }
        ],
    }


def test_columns_are_sure_of_a_usual_claim() -> None:
    assert Situation(plain()).check()
    assert Situation(plain(3)).check()
    assert Situation(plain(3, ["dev-1"])).check()
    assert Situation(plain(2, ["dev-0"])).check()


def test_columns_count_only_devices_whose_taints_are_tolerated() -> None:
    case = plain(2)
    case["slices"][1]["spec"]["devices"][0]["taints"] = [{"key": "bad", "effect": "NoExecute"}]
    assert Situation(case).check()
    case["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 3
    assert Situation(case).check()


def test_columns_follow_nodes_that_come_and_go() -> None:
    situation = Situation(plain(2))
    situation.nodes.remove_node("node")
    fitting = situation.fitting()
    assert fitting is not None
    assert not fitting.fits.any()
    situation.nodes.add_node(make_node("another"))
    situation.nodes.add_node(make_node("node"))
    assert situation.check()


def test_columns_tell_nothing_while_a_pool_of_several_nodes_has_suitable_devices() -> None:
    situation = Situation(plain())
    assert situation.check()
    (pool,) = situation.devices.pools.values()
    anywhere = [replace(of, nodes=NodeSelection(all_nodes=True)) for of in pool.slices]
    situation.put((DRIVER, "anywhere"), anywhere)
    assert situation.fitting() is None
    situation.put((DRIVER, "anywhere"), ())
    assert situation.check()


def test_an_allocation_has_the_current_configuration_of_the_class() -> None:
    situation = Situation(plain())
    situation.check()
    of_class = situation.devices.classes["any"]
    config = v1.DeviceClassConfiguration()
    config.opaque.driver = DRIVER
    situation.devices.classes = {"any": replace(of_class, config=(config,))}
    assert situation.check()


def test_pods_are_counted_until_a_node_has_too_few_devices_for_the_next() -> None:
    situation = Situation(plain(1, ["dev-1"]))
    fitting = situation.fitting()
    assert fitting is not None
    row = situation.nodes.row_of("node")
    assert row is not None
    ahead = DevicesAhead(fitting, 1)
    assert [ahead.place(row), ahead.place(row)] == [True, False]
