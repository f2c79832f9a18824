"""The two plugins on a small cluster, through the code that decides in the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from podsched_example_plugins.cpu_headroom import REASON as TOO_LITTLE
from podsched_example_plugins.cpu_headroom import CpuHeadroom
from podsched_example_plugins.team_nodes import REASON as OTHER_TEAM
from podsched_example_plugins.team_nodes import TEAM, TeamNodes

from podsched.ask.simulation import simulate
from podsched.registry import BUILT_IN

EXAMPLE = Path(__file__).parents[1]
PLUGINS = {**BUILT_IN, "CpuHeadroom": CpuHeadroom, "TeamNodes": TeamNodes}


def documents(name: str) -> Iterator[dict[str, Any]]:
    return yaml.safe_load_all((EXAMPLE / name).read_text())


def decision(**changes: Any) -> dict[str, Any]:
    """Return what is decided for pod.yaml on cluster.yaml under scheduler.yaml."""
    scenario = {
        "objects": list(documents("cluster.yaml")),
        "pod": next(documents("pod.yaml")),
        "config": next(documents("scheduler.yaml")),
    }
    return simulate(scenario | changes, PLUGINS)


def test_a_node_without_headroom_and_one_of_another_team_are_rejected() -> None:
    verdicts = decision()["filter"]
    assert verdicts["open-0"]["code"] == "Success"
    assert verdicts["open-1"] == {
        "code": "Unschedulable", "plugin": "CpuHeadroom", "reasons": [TOO_LITTLE],
    }  # fmt: skip
    assert verdicts["red-0"] == {
        "code": "UnschedulableAndUnresolvable", "plugin": "TeamNodes", "reasons": [OTHER_TEAM],
    }  # fmt: skip


def test_a_pod_of_the_team_may_use_its_nodes() -> None:
    pod = next(documents("pod.yaml"))
    pod["metadata"]["labels"] = {TEAM: "red"}
    assert "red-0" in decision(pod=pod)["feasible"]


def test_a_smaller_pod_goes_where_its_team_is_for_that_weighs_more_than_headroom() -> None:
    pod = next(documents("pod.yaml"))
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    result = decision(pod=pod)
    scores = {node: of["plugins"] for node, of in result["score"].items()}
    assert (scores["open-0"]["CpuHeadroom"], scores["open-1"]["CpuHeadroom"]) == (97, 35)
    assert (scores["open-0"]["TeamNodes"], scores["open-1"]["TeamNodes"]) == (0, 500)
    assert result["best"] == ["open-1"]


@pytest.mark.parametrize("args", [{"percent": 101}, {"percent": "ten"}, {"persent": 10}])
def test_arguments_that_mean_nothing_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"percent|persent"):
        CpuHeadroom(args, handle=None)  # type: ignore[arg-type]
