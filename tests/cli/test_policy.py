"""Policies on the command line: ``sched config check`` and ``convert``, ``sched simulate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.commands import Commands

POLICY = {
    "kind": "Policy",
    "apiVersion": "v1",
    "predicates": [
        {"name": "GeneralPredicates"},
        {"name": "NoOld", "argument": {"labelsPresence": {"labels": ["old"], "presence": False}}},
    ],
    "priorities": [
        {"name": "SSD", "weight": 3, "argument": {"labelPreference": {"label": "ssd",
                                                                      "presence": True}}},
    ],
}  # fmt: skip
CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: small, labels: {ssd: "yes"}}
status: {allocatable: {cpu: 100m, memory: 1Gi, pods: "9"}}
---
apiVersion: v1
kind: Node
metadata: {name: old, labels: {old: "yes"}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
---
apiVersion: v1
kind: Node
metadata: {name: plain}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
---
apiVersion: v1
kind: Node
metadata: {name: fast, labels: {ssd: ""}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeSelector: {ssd: ""}
  containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The paths of a Policy, a cluster and a pod."""
    written = {"policy": json.dumps(POLICY), "cluster": CLUSTER, "pod": POD}
    for name, text in written.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return {name: str(tmp_path / f"{name}.yaml") for name in written}


def simulated(sched: Commands, files: dict[str, str], *options: str) -> dict[str, Any]:
    given = ("-f", files["cluster"], "--pod", files["pod"], "-o", "json", *options)
    result: dict[str, Any] = json.loads(sched.ok("simulate", *given))
    return result


def test_a_policy_is_checked_like_a_configuration(sched: Commands, files: dict[str, str]) -> None:
    policy = files["policy"]
    for given in ([policy], ["--policy-config-file", policy]):
        said = sched.ok("config", "check", *given)
        assert said == f"{policy}: valid; profiles: default-scheduler\n"


def test_convert_prints_a_configuration_that_does_the_same(
    sched: Commands, files: dict[str, str], tmp_path: Path
) -> None:
    converted = tmp_path / "converted.yaml"
    converted.write_text(sched.ok("config", "convert", files["policy"]))
    assert yaml.safe_load(converted.read_text())["kind"] == "KubeSchedulerConfiguration"
    by_policy = simulated(sched, files, "--policy-config-file", files["policy"])
    assert simulated(sched, files, "--config", str(converted)) == by_policy
    assert sched.ok("config", "convert", str(converted)) == converted.read_text()


def test_a_simulation_decides_by_the_policy(sched: Commands, files: dict[str, str]) -> None:
    result = simulated(sched, files, "--policy-config-file", files["policy"])
    assert result["best"] == ["fast"]
    assert result["score"]["fast"] == {"plugins": {"SSD": 300}, "total": 300}
    reasons = {name: set(status["reasons"]) for name, status in result["filter"].items()}
    affinity = "node(s) didn't match Pod's node affinity/selector"
    assert reasons == {
        "fast": set(),
        "small": {"Insufficient cpu", affinity},
        "old": {affinity},
        "plain": {affinity},
    }
    assert result["filter"]["old"]["plugin"] == "GeneralPredicates"


def test_a_simulation_may_take_an_algorithm_provider(
    sched: Commands, files: dict[str, str]
) -> None:
    result = simulated(sched, files, "--algorithm-provider", "ClusterAutoscalerProvider")
    assert "MostRequestedPriority" in result["score"]["fast"]["plugins"]


def test_every_mistake_of_a_policy_is_told(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"kind": "Policy", "predicates": [{"name": "Nothing"}], "colour": "red"}')
    for command in ("check", "convert"):
        done = sched("config", command, str(file))
        assert done.code == 1
        assert done.errors == [
            "error: invalid configuration, 2 errors:",
            f"{file}: colour: Unknown field",
            f'{file}: predicates[0].name: Not found: "Nothing": predicate type not found',
        ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "no configuration: give a FILE or a Policy"),
        (["--policy-configmap", "a/b/c"], "--policy-configmap a/b/c: must be NAMESPACE/NAME"),
        (
            ["--policy-configmap", "p", "--algorithm-provider", "DefaultProvider"],
            "--policy-config-file, --policy-configmap and --algorithm-provider: use one of them",
        ),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    sched: Commands, options: list[str], says: str
) -> None:
    done = sched("config", "check", *options)
    assert (done.code, done.errors) == (2, [f"error: {says}"])


def test_a_configuration_beside_a_policy_has_no_profiles(
    sched: Commands, files: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("podMaxBackoffSeconds: 20")
    both = ("--policy-config-file", files["policy"])
    document = yaml.safe_load(sched.ok("config", "convert", str(config), *both))
    assert document["podMaxBackoffSeconds"] == 20
    config.write_text("profiles: [{schedulerName: mine}]")
    done = sched("config", "convert", str(config), *both)
    assert done.code == 2
    assert done.errors == [
        f"error: {config}: profiles: remove them, because the Policy defines them"
    ]
