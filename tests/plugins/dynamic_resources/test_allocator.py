"""What holds for every allocation, and how a search is stopped."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings

from podsched.api.quantity import parse
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.cases import run_case
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from support.device_world import AttributeSelector, Document, allocator_of, cases, read_claim


def results_of(case: Document) -> list[Document]:
    """All devices that the claims of a case get."""
    allocations = run_case(case, AttributeSelector)["allocations"] or ()
    return [result for of in allocations for result in of["devices"].get("results", ())]


def devices_of(case: Document) -> dict[tuple[str, str], Document]:
    """The devices of a case by pool and name."""
    return {
        (of["spec"]["pool"]["name"], device["name"]): device
        for of in case["slices"]
        for device in of["spec"].get("devices", ())
    }


@settings(max_examples=200)
@given(cases())
def test_no_device_is_given_twice_but_to_admins_and_as_shares(case: Document) -> None:
    in_use = [(of["pool"], of["device"]) for of in case["allocated"].get("devices", ())]
    exclusive = [
        (result["pool"], result["device"])
        for result in results_of(case)
        if "adminAccess" not in result and "shareID" not in result
    ]
    assert all(count == 1 for count in Counter(exclusive + in_use).values())


@settings(max_examples=200)
@given(cases())
def test_no_counter_is_exceeded(case: Document) -> None:
    left: dict[tuple[str, str], Fraction] = {
        (of["spec"]["pool"]["name"], counters["name"]): parse(
            counters["counters"]["slices"]["value"]
        )
        for of in case["slices"]
        for counters in of["spec"].get("sharedCounters", ())
    }
    devices = devices_of(case)
    taken = {(result["pool"], result["device"]) for result in results_of(case)}
    for pool, name in taken:
        for of in devices[pool, name].get("consumesCounters", ()):
            left[pool, of["counterSet"]] -= parse(of["counters"]["slices"]["value"])
    assert all(amount >= 0 for amount in left.values())


@settings(max_examples=200)
@given(cases())
def test_shares_consume_no_more_than_a_device_has(case: Document) -> None:
    consumed: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for of in case["allocated"].get("capacity", ()):
        consumed[of["pool"], of["device"]] += parse(of["consumed"]["memory"])
    taken = set()
    for result in results_of(case):
        if "shareID" in result:
            key = result["pool"], result["device"]
            taken.add(key)
            consumed[key] += parse(result["consumedCapacity"]["memory"])
    devices = devices_of(case)
    for key in taken:
        assert consumed[key] <= parse(devices[key]["capacity"]["memory"]["value"])


def hard_allocator(*, prune: bool) -> tuple[Allocator, list[Any]]:
    """A search for 9 devices among 24 of which two that are wanted last do not exist."""
    devices = [
        {"name": f"d{n}", "attributes": {"model": {"string": "x"}, "n": {"int": n}}}
        for n in range(24)
    ]
    spec = {
        "driver": "a.example",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "allNodes": True,
        "devices": devices,
    }
    wanted = {"deviceClassName": "any", "allocationMode": "ExactCount"}
    constraint = {"distinctAttribute": "a.example/n"}
    claim = {
        "metadata": {"name": "c"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "a", "exactly": wanted | {"count": 9}},
                    {
                        "name": "b",
                        "exactly": wanted
                        | {"count": 2, "selectors": [{"cel": {"expression": "model=y"}}]},
                    },
                ],
                "constraints": [constraint],
            }
        },
    }
    allocator = allocator_of([{"metadata": {"name": "s"}, "spec": spec}], prune=prune)
    return allocator, [read_claim(claim)]


def test_a_search_without_end_stops_when_it_is_told_to() -> None:
    allocator, claims = hard_allocator(prune=False)
    asked = iter(range(1000))
    with pytest.raises(AllocationAborted):
        allocator.allocate(claims, should_stop=lambda: next(asked) > 20)
    assert next(asked) == 22, "it goes on until then"


def test_a_search_that_was_told_to_stop_does_not_begin() -> None:
    allocator, claims = hard_allocator(prune=True)
    with pytest.raises(AllocationAborted):
        allocator.allocate(claims, should_stop=lambda: True)


def test_a_request_that_nothing_can_satisfy_ends_the_search_at_once() -> None:
    allocator, claims = hard_allocator(prune=True)
    assert allocator.allocate(claims) is None
    assert allocator.choices < 30


def test_more_devices_than_the_interpreter_may_recurse() -> None:
    devices = [{"name": f"d{n:04}"} for n in range(2000)]
    spec = {
        "driver": "a.example",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "allNodes": True,
        "devices": devices,
    }
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 32}
    claims = [
        {
            "metadata": {"name": f"c{n}"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        }
        for n in range(60)
    ]
    allocator = allocator_of([{"metadata": {"name": "s"}, "spec": spec}])
    allocations = allocator.allocate([read_claim(claim) for claim in claims])
    assert allocations is not None
    assert [len(of.devices.results) for of in allocations] == [32] * 60


def test_more_claims_than_the_interpreter_may_recurse() -> None:
    spec = {
        "driver": "a.example",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "allNodes": True,
        "devices": [{"name": f"d{n}"} for n in range(3)],
    }
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    claim = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    allocator = allocator_of([{"metadata": {"name": "s"}, "spec": spec}])
    assert allocator.allocate([read_claim(claim)] * 1500) is None


def test_a_step_of_nothing_limits_no_amount() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": "0"}}
    devices = [
        {
            "name": "d",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10", "requestPolicy": policy}},
        }
    ]
    spec = {
        "driver": "a.example",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "allNodes": True,
        "devices": devices,
    }
    exactly = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": "3"}},
    }
    requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    allocator = allocator_of([{"metadata": {"name": "s"}, "spec": spec}])
    claim = read_claim({"metadata": {"name": "c"}, "spec": requests})
    [found] = allocator.allocate([claim]) or []
    assert found.devices.results[0].consumed_capacity == {"memory": "3"}
