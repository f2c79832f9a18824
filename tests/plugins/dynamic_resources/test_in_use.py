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
