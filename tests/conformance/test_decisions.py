"""Every decision as kube-scheduler 1.36 made it: all families, all cases, every field."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from podsched.engine.simulation import simulate

DATA = Path(__file__).parent / "data"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in DATA.glob("*.jsonl.gz"))


@cache
def cases(family: str) -> dict[str, dict[str, Any]]:
    """The cases of a family by id."""
    with gzip.open(DATA / f"{family}.jsonl.gz", "rt") as lines:
        found = [json.loads(line) for line in lines]
    return {case["scenario"]["id"]: case for case in found}


def comparable(decision: dict[str, Any]) -> dict[str, Any]:
    """The decision with what the cases say is to be read as the same made the same.

    A plugin without a score counts as 0.
    """
    scores = decision.get("score", {})
    for scored in scores.values():
        scored["plugins"] = {name: n for name, n in scored["plugins"].items() if n}
    return decision


@pytest.mark.parametrize(
    ("family", "case"), [(family, case) for family in FAMILIES for case in cases(family)]
)
def test_the_decision_is_that_of_kube_scheduler(family: str, case: str) -> None:
    scenario, expected = cases(family)[case]["scenario"], cases(family)[case]["expected"]
    assert comparable(simulate(scenario)) == comparable(json.loads(json.dumps(expected)))


def test_there_are_sixty_cases_of_each_family() -> None:
    assert {family: len(cases(family)) for family in FAMILIES} == dict.fromkeys(FAMILIES, 60)
    assert len(FAMILIES) == 11
