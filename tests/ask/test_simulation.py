"""``simulate`` on single scenarios, and what it makes of broken ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsched.api.manifest import to_manifest
from podsched.ask.simulation import (
    GATED,
    BadScenario,
    open_scenarios,
    simulate,
    simulate_lines,
)
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.registry import factories
from support.engine_world import node, pod
from support.gangs import gang


def scenario(identity: str = "s", **parts: Any) -> dict[str, Any]:
    objects = [to_manifest(node("a")), to_manifest(node("b", unschedulable=True))]
    return {"id": identity, "objects": objects, "pod": to_manifest(pod("pending")), **parts}


def test_a_pod_that_fits_gets_its_verdicts_scores_and_best_nodes() -> None:
    result = simulate(scenario(), factories())
    assert result["outcome"] == "Schedulable"
    assert result["filter"]["a"] == {"code": "Success", "plugin": "", "reasons": []}
    assert result["filter"]["b"]["reasons"] == ["node(s) were unschedulable"]
    assert result["best"] == result["feasible"] == ["a"]
    assert result["score"]["a"]["total"] == sum(result["score"]["a"]["plugins"].values())


def test_a_gated_pod_is_told_as_gated_and_what_would_make_it_fit() -> None:
    gated = pod("pending", {"schedulingGates": [{"name": "quota"}]})
    result = simulate(scenario(pod=to_manifest(gated)), factories(), changes=True)
    assert result["outcome"] == "Gated"
    assert result["gate"] == {
        "plugin": "SchedulingGates", "reasons": ["waiting for scheduling gates: [quota]"],
    }  # fmt: skip
    assert [change["kind"] for change in result["changes"]] == ["gates"]
    assert "filter" not in result


class FailsOn:
    """Filter fails on node b, Score on every node."""

    name = "FailsOn"

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        result = Verdicter(len(rows))
        wanted = np.array([nodes.names[row] == "b" for row in rows.tolist()], dtype=np.bool_)
        result.flag(wanted, Code.ERROR, "broken")
        return result.done()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        raise ValueError("broken")


def test_a_pod_counts_for_the_gang_that_it_completes() -> None:
    group, [first, last] = gang("train", 2, 2)
    objects = [to_manifest(item) for item in (node("a"), group)]
    alone = simulate(scenario(objects=objects, pod=to_manifest(last)), factories())
    assert alone["outcome"] == GATED
    objects.append(to_manifest(first))
    assert simulate(scenario(objects=objects, pod=to_manifest(last)), factories())["best"] == ["a"]


def test_a_pod_that_has_ended_is_decided_on_with_its_group() -> None:
    group, [first, last] = gang("train", 2, 2)
    last.status.phase = "Succeeded"
    objects = [to_manifest(item) for item in (node("a"), group, first)]
    assert simulate(scenario(objects=objects, pod=to_manifest(last)), factories())["best"] == ["a"]


def test_the_first_pod_of_a_group_in_labels_is_a_group() -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/queue-name": "q"}
    first = pod("p", labels=labels)
    found = simulate(scenario(pod=to_manifest(first)), factories())
    assert found["outcome"] == "Schedulable"


def test_other_schedulers_labels_name_groups_if_the_configuration_says_so() -> None:
    marks = "pod-group.scheduling.sigs.k8s.io"
    member = pod("p", labels={f"{marks}/name": "t"}, annotations={f"{marks}/min-available": "2"})
    args = [{"name": "GangScheduling", "args": {"labelGroups": True}}]
    config = {"profiles": [{"pluginConfig": args}]}
    alone = simulate(scenario(pod=to_manifest(member)), factories())
    waits = simulate(scenario(pod=to_manifest(member), config=config), factories())
    assert (alone["outcome"], waits["outcome"]) == ("Schedulable", GATED)


def failing_at(point: str) -> dict[str, Any]:
    """The result with FailsOn at one extension point; all nodes pass the other filters."""
    enabled = {"enabled": [{"name": "FailsOn"}]}
    config = {"profiles": [{"plugins": {point: enabled}}]}
    plugins = {**factories(), "FailsOn": lambda args, handle: FailsOn()}
    objects = [to_manifest(node("a")), to_manifest(node("b"))]
    return simulate(scenario(objects=objects, config=config), plugins)


def test_when_a_filter_fails_on_a_node_the_nodes_that_passed_are_named_all_the_same() -> None:
    result = failing_at("filter")
    assert result["outcome"] == "Error"
    assert result["filter"]["b"]["code"] == "Error"
    assert result["feasible"] == ["a"]
    assert "score" not in result


def test_when_scoring_fails_the_feasible_nodes_are_named_with_the_error() -> None:
    result = failing_at("score")
    assert result["feasible"] == ["a", "b"]
    assert result["scoreError"] == 'running Score plugins: plugin "FailsOn" failed with: broken'
    assert "score" not in result


def test_a_cluster_without_nodes_has_kube_schedulers_words_for_it() -> None:
    result = simulate(scenario(objects=[]), factories())
    assert result["message"] == "no nodes available to schedule pods"


def test_the_objects_may_come_in_any_order_and_finished_pods_do_not_count() -> None:
    done = pod("done", {"nodeName": "a", "containers": [{"name": "c"}]})
    done.spec.containers[0].resources.requests["cpu"] = "4"
    done.status.phase = "Succeeded"
    whole = scenario()
    whole["objects"] = [to_manifest(done), *reversed(whole["objects"])]
    assert simulate(whole, factories()) == simulate(scenario(), factories())


def test_a_broken_scenario_is_reported_and_the_rest_go_on() -> None:
    bad_quantity = scenario("bad quantity")
    bad_quantity["objects"][0]["status"]["allocatable"]["cpu"] = "many"
    lines = [
        json.dumps(scenario("first")),
        "{",
        json.dumps({"id": "no pod", "objects": []}),
        json.dumps(bad_quantity),
        json.dumps(scenario("bad config", config={"profiles": [{"colour": "red"}]})),
        "",
        json.dumps({"scenario": scenario("last")}),
    ]
    results = list(simulate_lines(lines, factories()))
    broken = ["line 2", "no pod", "bad quantity", "bad config"]
    assert [result["id"] for result in results] == ["first", *broken, "last"]
    assert [result["id"] for result in results if "error" in result] == broken
    assert "profiles[0].colour" in results[4]["error"]


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.jsonl.gz"])
def test_files_are_read_plain_or_compressed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = (json.dumps(scenario("x")) + "\n").encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with open_scenarios(path) as lines:
        assert [result["id"] for result in simulate_lines(lines, factories())] == ["x"]


def test_the_nominated_node_is_reported_when_it_fits() -> None:
    pending = pod("pending")
    pending.status.nominated_node_name = "a"
    assert simulate(scenario(pod=to_manifest(pending)), factories())["nominatedNodeUsed"] == "a"


def test_a_profile_can_switch_scores_off() -> None:
    config = {"profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}]}
    result = simulate(scenario(config=config), factories())
    assert result["score"]["a"] == {"plugins": {}, "total": 1}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"objects": [["a"]]}, r"objects\[0\]: \['a'\] is not a manifest"),
        ({"config": [1]}, r"config: \[1\] is not an object"),
    ],
)
def test_a_part_of_the_wrong_type_is_named_with_its_value(
    changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(BadScenario, match=told):
        simulate(scenario(**changed), factories())
