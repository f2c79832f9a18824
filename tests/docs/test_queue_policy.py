"""The ValidatingAdmissionPolicy of deploy/kubernetes/queues, evaluated as Kubernetes would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.api.cel.check import Checker
from podsched.api.cel.program import Compiler
from podsched.api.cel.state import State
from podsched.api.cel.syntax import parse
from podsched.api.cel.types import DYN
from podsched.api.queue_labels import ADMISSION_ANNOTATIONS, ADMITTED_QUEUE

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "queues" / "policy.yaml"
SPEC: dict[str, Any] = next(iter(yaml.safe_load_all(FILE.read_text("utf-8"))))["spec"]
ADMITTED = dict.fromkeys(ADMISSION_ANNOTATIONS, "as admitted")


def evaluate(expression: str, **variables: Any) -> Any:
    tree = parse(expression)
    Checker(dict.fromkeys(variables, DYN), {}, frozenset()).check(tree)
    slots = {name: index for index, name in enumerate(variables)}
    compiler = Compiler(slots)
    run = compiler.compile(tree)
    return run(State([*variables.values(), *[None] * (compiler.slots - len(slots))], 10**6))


def permits(node: str, before: dict[str, str] | None, after: dict[str, str] | None) -> bool:
    """Whether an update of a pod's annotations is permitted; None: it has no annotations."""

    def pod(annotations: dict[str, str] | None) -> dict[str, Any]:
        spec = {"nodeName": node} if node else {}
        metadata = {"name": "a"} if annotations is None else {"annotations": annotations}
        return {"metadata": metadata, "spec": spec}

    objects = {"oldObject": pod(before), "object": pod(after)}
    if not all(evaluate(one["expression"], **objects) for one in SPEC["matchConditions"]):
        return True
    variables = {one["name"]: evaluate(one["expression"], **objects) for one in SPEC["variables"]}
    return all(
        evaluate(one["expression"], variables=variables, **objects) is True
        for one in SPEC["validations"]
    )


@pytest.mark.parametrize("name", ADMISSION_ANNOTATIONS)
def test_by_what_a_bound_pod_was_admitted_cannot_be_changed_added_or_removed(name: str) -> None:
    others = {key: value for key, value in ADMITTED.items() if key != name}
    assert not permits("a", ADMITTED, {**ADMITTED, name: "changed"})
    assert not permits("a", ADMITTED, others)
    assert not permits("a", others, ADMITTED)


def test_other_annotations_of_a_bound_pod_may_change() -> None:
    assert permits("a", ADMITTED, {**ADMITTED, "team": "blue"})
    assert permits("a", None, {"team": "blue"})
    assert not permits("a", ADMITTED, None)
    assert not permits("a", None, {ADMITTED_QUEUE: "main"})


def test_a_pod_without_a_node_may_have_any_annotations() -> None:
    assert permits("", {ADMITTED_QUEUE: "main"}, {ADMITTED_QUEUE: "other"})
