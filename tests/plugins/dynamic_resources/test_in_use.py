"""Which devices are in use, kept current claim by claim."""

from __future__ import annotations

from fractions import Fraction

from podsched.plugins.dynamic_resources.in_use import DevicesInUse
from podsched.plugins.dynamic_resources.model import DeviceID, InUse

POOL = ("gpu.example.com", "n1")
DEVICE = DeviceID(*POOL, "d0")


def share(amount: int) -> tuple[DeviceID, dict[str, Fraction]]:
    return DEVICE, {"memory": Fraction(amount)}


def test_shares_add_up_and_are_taken_back() -> None:
    in_use = DevicesInUse()
    in_use.put(("ns", "a"), [share(2)])
    in_use.put(("ns", "b"), [share(3), share(2)])
    assert in_use.by_pool == {POOL: {"d0": InUse(0, 3, {"memory": 7})}}
    in_use.put(("ns", "b"), [share(1)])
    assert in_use.by_pool == {POOL: {"d0": InUse(0, 2, {"memory": 3})}}
    in_use.put(("ns", "c"), [(DEVICE, None)])
    in_use.put(("ns", "a"), ())
    in_use.put(("ns", "b"), ())
    assert in_use.by_pool == {POOL: {"d0": InUse(1, 0, None)}}
    in_use.put(("ns", "c"), ())
    assert not in_use.by_pool


def test_a_share_costs_the_same_however_many_there_are() -> None:
    sums = 0

    class Amount(Fraction):
        def __add__(self, other: object) -> Fraction:
            nonlocal sums
            sums += 1
            return Amount(super().__add__(other))  # type: ignore[operator]

        __radd__ = __add__

    in_use = DevicesInUse()
    for number in range(1000):
        in_use.put(("ns", str(number)), [(DEVICE, {"memory": Amount(1)})])
    assert in_use.by_pool == {POOL: {"d0": InUse(0, 1000, {"memory": 1000})}}
    assert sums <= 2000


def test_what_some_claims_use_can_be_left_out() -> None:
    other = DeviceID("gpu.example.com", "n1", "d1")
    far = DeviceID("gpu.example.com", "n2", "d0")
    in_use = DevicesInUse()
    in_use.put(("ns", "a"), [share(2), (far, None)])
    in_use.put(("ns", "b"), [share(3)])
    in_use.put(("ns", "c"), [(other, None)])
    pools = [POOL, ("gpu.example.com", "n9")]
    left = in_use.without([("ns", "a"), ("ns", "c")], pools)
    assert left == {POOL: {"d0": InUse(0, 1, {"memory": 3})}}
    left = in_use.without([("ns", "b")], pools)
    assert left == {POOL: {"d0": InUse(0, 1, {"memory": 2}), "d1": InUse(1)}}
    assert in_use.by_pool[POOL]["d0"] == InUse(0, 2, {"memory": 5})
