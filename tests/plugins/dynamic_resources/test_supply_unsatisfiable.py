"""A search ends at its first failure if a request, or a constraint, cannot be satisfied at all.

That no result changes is tested with the whole search, see ``test_equivalence``.
"""

from __future__ import annotations

import pytest

from podsched.plugins.dynamic_resources.errors import AllocationError
from support.device_world import Document, allocator_of, read_claim

#: All devices are unlike, so that none stands for others. Three models, each in two racks.
DEVICES = [
    {
        "name": f"d{number}",
        "attributes": {
            "id": {"string": f"{number}"},
            "model": {"string": f"m{number % 3}"},
            "rack": {"string": f"r{number // 3}"},
        }
        | ({"odd": {"string": "yes"}} if number == 5 else {}),
    }
    for number in range(6)
]
IDS = {"distinctAttribute": "id", "requests": ["r0", "r1"]}


def choices(wanted: list[Document], constraints: list[Document]) -> int:
    """Return how many choices it takes to find out that there is no solution."""
    pool = {"driver": "a.example", "pool": {"name": "p", "resourceSliceCount": 1}}
    of_slice = {"metadata": {"name": "s"}, "spec": pool | {"allNodes": True, "devices": DEVICES}}
    request = {"deviceClassName": "any", "allocationMode": "ExactCount"}
    requests = [{"name": f"r{n}", "exactly": request | of} for n, of in enumerate(wanted)]
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    allocator = allocator_of([of_slice])
    claim = read_claim({"metadata": {"name": "c"}, "spec": spec})
    assert allocator.allocate([claim]) is None
    return allocator.choices


def selected(expression: str, count: int) -> Document:
    return {"count": count, "selectors": [{"cel": {"expression": expression}}]}


@pytest.mark.parametrize(
    ("last", "constraints"),
    [
        (selected("model=m0", 3), [IDS]),
        ({"count": 3}, [IDS, {"matchAttribute": "model", "requests": ["r2"]}]),
        ({"count": 3}, [IDS, {"distinctAttribute": "rack", "requests": ["r2"]}]),
        # Each can be satisfied, but not with the same model.
        (selected("odd=yes", 1), [IDS, {"matchAttribute": "id", "requests": ["r2", "r1"]}]),
        # The request behind fails on the devices without the attribute, but it is never reached.
        (selected("model=m0", 3), [IDS, {"distinctAttribute": "id", "requests": ["r3"]}]),
    ],
)
def test_what_no_choice_satisfies_is_found_at_the_first_failure(
    last: Document, constraints: list[Document]
) -> None:
    wanted = [{"count": 1}, {"count": 2}, last]
    if "r3" in constraints[-1]["requests"]:
        wanted.append(selected("odd", 1))
    assert choices(wanted, constraints) < 8


def test_an_error_of_an_earlier_request_is_told() -> None:
    with pytest.raises(AllocationError, match="no such key: odd"):
        choices([selected("odd", 1), selected("model=m0", 3)], [])
