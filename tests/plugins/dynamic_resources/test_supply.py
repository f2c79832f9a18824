"""A search ends where too few devices are left, and nowhere else."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given

from podsched.plugins.dynamic_resources import search
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.cases import run_case
from podsched.plugins.dynamic_resources.taken import TakenDevices
from support.device_world import AttributeSelector, Document, allocator_of, cases, read_claim
from support.examples import examples


@examples(600)
@given(cases())
def test_asking_at_each_choice_changes_no_result(case: Document) -> None:
    with patch.object(search, "_EASY", 0):
        result = run_case(case, AttributeSelector)
    assert result == run_case(case, AttributeSelector, prune=False)


def partitions() -> Document:
    """Partitions of one, two and three of the seven slices of each of four GPUs, all unlike."""
    pool = {"name": "p", "resourceSliceCount": 2}
    of_pool = {"driver": "a.example", "pool": pool, "allNodes": True}
    names = [f"g{number}" for number in range(4)]
    counters = [{"name": name, "counters": {"slices": {"value": "7"}}} for name in names]
    devices = [
        {
            "name": f"{name}-{amount}-{number}",
            "attributes": {"number": {"string": f"{number}"}},
            "consumesCounters": [
                {"counterSet": name, "counters": {"slices": {"value": f"{amount}"}}}
            ],
        }
        for name in names
        for number, amount in enumerate((3, 2, 3, 2, 1, 1))
    ]
    request = {"deviceClassName": "any", "allocationMode": "ExactCount"}
    # Each of those wanted first can be had in many ways, but four are left to the last.
    wanted = [request | {"count": 2}] * 4 + [request | {"count": 9}]
    requests = [{"name": f"r{n}", "exactly": of} for n, of in enumerate(wanted)]
    constraint = {"distinctAttribute": "number", "requests": ["r0"]}
    return {
        "node": {"metadata": {"name": "node"}},
        "classes": [{"metadata": {"name": "any"}}],
        "slices": [
            {"metadata": {"name": "s0"}, "spec": of_pool | {"sharedCounters": counters}},
            {"metadata": {"name": "s1"}, "spec": of_pool | {"devices": devices}},
        ],
        "claims": [
            {
                "metadata": {"name": "c"},
                "spec": {"devices": {"requests": requests, "constraints": [constraint]}},
            }
        ],
    }


def test_a_claim_for_more_partitions_than_the_counters_permit_fails_soon() -> None:
    """Of seventeen, at most sixteen can be had: two of one slice and two of two of each GPU."""
    case = partitions()
    allocator = allocator_of(case["slices"], case["classes"])
    claims = [read_claim(of) for of in case["claims"]]
    assert allocator.allocate(claims) is None
    assert allocator.choices < 100


def test_a_search_that_never_fails_asks_for_no_supply() -> None:
    """It would take longer than the search, such as for a pod with hundreds of claims."""
    case = partitions()
    request = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "r", "exactly": request}]}
    claims = [
        read_claim({"metadata": {"name": f"c{n}"}, "spec": {"devices": devices}}) for n in range(8)
    ]
    allocator = allocator_of(case["slices"], case["classes"])
    with (
        patch.object(search, "_EASY", 0),
        patch.object(search.Supply, "lacks", side_effect=AssertionError),
    ):
        found = allocator.allocate(claims)
    assert found is not None
    assert len(found) == 8


def equal_requests(devices: list[Document], count: int) -> tuple[Allocator, list[Any]]:
    """Ten claims, each for so many of these devices."""
    pool = {"name": "p", "resourceSliceCount": 1}
    spec = {"driver": "a.example", "pool": pool, "allNodes": True, "devices": devices}
    request = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count}
    claim = {"spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}}}
    claims = [read_claim({"metadata": {"name": f"c{n}"}, **claim}) for n in range(10)]
    allocator = allocator_of([{"metadata": {"name": "s"}, "spec": spec}])
    return allocator, claims


def test_equal_requests_do_not_look_at_the_devices_that_others_before_them_took() -> None:
    """It would take a second for a pod with a thousand claims."""
    allocator, claims = equal_requests([{"name": f"d{n}"} for n in range(20)], count=2)
    looks = TakenDevices.is_in_use
    with patch.object(TakenDevices, "is_in_use", autospec=True, side_effect=looks) as looked_at:
        found = allocator.allocate(claims)
    assert found is not None
    assert looked_at.call_count == 2 * 20


def test_equal_requests_share_a_device_that_can_be_shared() -> None:
    shareable = {"name": "d0", "allowMultipleAllocations": True}
    allocator, claims = equal_requests([shareable, {"name": "d1"}], count=1)
    found = allocator.allocate(claims)
    assert found is not None
    assert {result.device for of in found for result in of.devices.results} == {"d0"}
