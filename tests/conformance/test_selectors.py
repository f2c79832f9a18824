"""CEL selectors of devices against what Kubernetes v1.36 recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from podsched.ask.selector_cases import selector_results
from support.device_cases import SHARED

HERE = Path(__file__).parent / "selectors" / "cel-more.jsonl.gz"
#: Cases with inputs of Kubernetes' own tests, which are not kept here.
BESIDE = SHARED / "cel.jsonl.gz"
FILES = [
    HERE,
    pytest.param(
        BESIDE, marks=pytest.mark.skipif(not BESIDE.exists(), reason="no ../shared beside this")
    ),
]
#: Go goes through maps in no order, so that what these cost before they find a key is chance.
BY_CHANCE = {"expr-118", "expr-238", "expr-246", "random-198"}


def evaluated(path: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The cases with podsched's results."""
    with gzip.open(path) as file:
        lines = file.readlines()
    cases = [json.loads(line) for line in lines]
    return list(zip(cases, selector_results(lines), strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_selectors_compile_and_match_as_in_kubernetes(path: Path) -> None:
    for case, result in evaluated(path):
        recorded = case["result"]
        assert result["name"] == case["name"]
        assert (result["outcome"], result.get("match")) == (
            recorded["outcome"],
            recorded.get("match"),
        ), (case["expression"], result)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_selectors_cost_as_in_kubernetes(path: Path) -> None:
    for case, result in evaluated(path):
        for cost in ("estimatedCost", "actualCost"):
            if cost == "estimatedCost" or case["name"] not in BY_CHANCE:
                assert result.get(cost) == case["result"].get(cost), (case["expression"], cost)
