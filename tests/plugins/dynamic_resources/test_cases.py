"""The allocations that Kubernetes v1.36.2 makes in recorded cases."""

from __future__ import annotations

import pytest

from podsched.registry import run_allocation_case
from support.device_cases import compared, device_cases

FAMILIES = ("allocator", "allocator-experimental", "random-visible", "faults")
# Selectors cannot be evaluated yet.
CASES = [
    (family, name)
    for family in FAMILIES
    for name, case in device_cases(family).items()
    if "expression" not in str(case)
]
# Whose result without the fault is not recorded.
UNKNOWN = {
    name
    for name, case in device_cases("random-visible").items()
    if any(tag.startswith("fault:") for tag in case["tags"])
}


@pytest.mark.parametrize(("family", "name"), CASES)
def test_with_the_known_faults_each_case_has_the_result_of_kubernetes(
    family: str, name: str
) -> None:
    case = device_cases(family)[name]
    assert compared(run_allocation_case(case, known_faults=True)) == compared(case["result"])


@pytest.mark.parametrize(("family", "name"), [case for case in CASES if case[1] not in UNKNOWN])
def test_without_the_known_faults_only_cases_that_depend_on_them_differ(
    family: str, name: str
) -> None:
    case = device_cases(family)[name]
    expected = case.get("patched") or case["result"]
    assert compared(run_allocation_case(case, known_faults=False)) == compared(expected)
