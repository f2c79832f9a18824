"""Queue cases, decided and compared."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from podsched.ask.queue_cases.running import run_lines

ROOT = Path(__file__).parents[3]
#: Cases of Kueue, where they lie beside the checkout.
CASES = [folder / "shared" / "queues" / "cases.jsonl.gz" for folder in ROOT.parents]
KINDS = (
    "assign-flavors",
    "available",
    "cycle",
    "dominant-share",
    "partial-admission",
    "preemption",
    "queue-order",
    "requeue",
    "reserve",
    "topology",
    "victim-order",
)


@cache
def cases_of_kueue() -> list[dict[str, Any]]:
    path = next((path for path in CASES if path.is_file()), None)
    if path is None:
        pytest.skip("no ../shared/queues/cases.jsonl.gz beside the checkout")
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_cases_of_kueue_agree(kind: str) -> None:
    """All but those with a caveat."""
    cases = [case for case in cases_of_kueue() if case["kind"] == kind and not case.get("caveat")]
    assert cases
    results = run_lines(json.dumps(case) for case in cases)
    assert [result["id"] for result in results if not result["agrees"]] == []


def available(expected: int) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominal": "4"}]
    queue = {"name": "a", "resourceGroups": [[{"flavor": "f", "resources": resources}]]}
    return {
        "id": "mine",
        "kind": "available",
        "clusterQueues": [queue],
        "usage": {"a": {"f/cpu": 1000}},
        "expect": {"available": {"a": {"f/cpu": expected}}},
    }


def test_a_result_says_whether_it_is_as_expected() -> None:
    lines = [json.dumps(available(3000)), "", json.dumps(available(4000))]
    first, second = run_lines(lines)
    assert first == {
        "id": "mine",
        "agrees": True,
        "got": {
            "available": {"a": {"f/cpu": 3000}},
            "potentiallyAvailable": {"a": {"f/cpu": 4000}},
        },
    }
    assert not second["agrees"]


def got_of(case: dict[str, Any]) -> dict[str, Any]:
    (result,) = run_lines([json.dumps({"expect": {}, **case})])
    return dict(result["got"])


@pytest.mark.parametrize(("gate", "found"), [(True, True), (False, False)])
def test_counts_get_smaller_only_with_the_gate_of_partial_admission(
    gate: bool, found: bool
) -> None:
    pods = {"name": "main", "count": 5, "minCount": 2}
    case = {
        "kind": "partial-admission",
        "config": {"featureGates": {"PartialAdmission": gate}},
        "podSets": [pods],
        "largestTotalThatFits": 4,
    }
    assert got_of(case)["found"] is found


def test_a_priority_boost_that_is_no_number_counts_as_none() -> None:
    workloads = [
        {"name": boost, "annotations": {"kueue.x-k8s.io/priority-boost": boost}}
        for boost in ("1", "much", "-1")
    ]
    case = {
        "kind": "victim-order",
        "config": {"featureGates": {"PriorityBoost": True}},
        "preemptorClusterQueue": "mine",
        "workloads": workloads,
    }
    assert got_of(case)["order"] == ["-1", "much", "1"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "BadCase: no JSON object"),
        ('{"kind": "none"}', "BadCase: unknown kind 'none'"),
        ('{"kind": "reserve", "expect": {}}', "BadCase: 'assignmentUsage' is missing"),
        ('{"kind": "topology", "podSets": [], "levels": [], "nodes": []}', "BadCase: a topology"),
        (
            '{"kind": "available", "usage": {"gone": {}}, "expect": {}}',
            "BadCase: no ClusterQueue 'gone'",
        ),
    ],
)
def test_a_broken_line_is_told_apart_and_the_next_is_run(line: str, error: str) -> None:
    first, second = run_lines([line, json.dumps(available(3000))])
    assert first["error"].startswith(error)
    assert not first["agrees"]
    assert second["agrees"]
