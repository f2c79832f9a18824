"""Which devices are in use, kept current claim by claim."""

from __future__ import annotations

from fractions import Fraction

from podsched.plugins.dynamic_resources.in_use import DevicesInUse
from podsched.plugins.dynamic_resources.model import DeviceID

DEVICE = DeviceID("gpu.example.com", "n1", "d0")


def share(amount: int) -> tuple[DeviceID, dict[str, Fraction]]:
    return DEVICE, {"memory": Fraction(amount)}


def test_shares_add_up_and_are_taken_back() -> None:
    in_use = DevicesInUse()
    in_use.put(("ns", "a"), [share(2)])
    in_use.put(("ns", "b"), [share(3), share(2)])
    assert in_use.allocated.capacity == {DEVICE: {"memory": 7}}
    in_use.put(("ns", "b"), [share(1)])
    assert in_use.allocated.capacity == {DEVICE: {"memory": 3}}
    in_use.put(("ns", "a"), ())
    in_use.put(("ns", "b"), ())
    assert not in_use.allocated.capacity
    assert not in_use.is_shared(DEVICE)


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
    assert in_use.allocated.capacity[DEVICE] == {"memory": 1000}
    assert sums <= 2000


def test_what_some_claims_use_can_be_left_out() -> None:
    other = DeviceID("gpu.example.com", "n1", "d1")
    far = DeviceID("gpu.example.com", "n2", "d0")
    in_use = DevicesInUse()
    in_use.put(("ns", "a"), [share(2), (far, None)])
    in_use.put(("ns", "b"), [share(3)])
    in_use.put(("ns", "c"), [(other, None)])
    pools = [DEVICE[:2], ("gpu.example.com", "n9")]
    left = in_use.without([("ns", "a"), ("ns", "c")], pools)
    assert (set(left.devices), left.capacity) == (set(), {DEVICE: {"memory": 3}})
    left = in_use.without([("ns", "b")], pools)
    assert (set(left.devices), left.capacity) == ({other}, {DEVICE: {"memory": 2}})
    assert in_use.allocated.capacity == {DEVICE: {"memory": 5}}
