"""Files of v1beta2 and v1beta3."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from podsched.config.errors import ConfigError
from podsched.config.legacy.beta import converted
from podsched.config.load import SchedulerConfiguration, load_config
from podsched.config.plugins import ExtensionPoint

GROUP = "kubescheduler.config.k8s.io"
KIND = {"kind": "KubeSchedulerConfiguration"}


def document(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", **KIND, **fields}


def weights(config: SchedulerConfiguration, at: int = 0) -> dict[str, int]:
    return {p.name: p.weight for p in config.profiles[at].plugins[ExtensionPoint.SCORE]}


def warned(config: SchedulerConfiguration) -> list[str]:
    """What is warned about beside the version."""
    assert "sched config convert" in config.warnings[0]
    return [warning.split(":")[0] for warning in config.warnings[1:]]


#: The weights of getDefaultPlugins in pkg/scheduler/apis/config/v1beta2.
V1BETA2 = {
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeResourcesFit": 1,
    "NodeAffinity": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}


def test_the_defaults_are_those_of_the_version() -> None:
    v1 = load_config(document("v1"))
    assert load_config(document("v1beta3")).profiles == v1.profiles
    assert {k: v for k, v in weights(load_config(document("v1beta2"))).items() if k in V1BETA2} == (
        V1BETA2
    )
    both = load_config(document("v1beta2", profiles=[{"schedulerName": n} for n in "ab"]))
    assert weights(both, 0) == weights(both, 1) == weights(load_config(document("v1beta2")))


def test_what_a_profile_says_of_a_plugin_counts_and_not_the_versions_weight() -> None:
    score = {
        "enabled": [{"name": "NodeAffinity", "weight": 7}, {"name": "InterPodAffinity"}],
        "disabled": [{"name": "TaintToleration"}],
    }
    found = weights(load_config(document("v1beta2", profiles=[{"plugins": {"score": score}}])))
    assert (found["NodeAffinity"], found["InterPodAffinity"]) == (7, 1)
    assert "TaintToleration" not in found


def test_all_defaults_disabled_stay_disabled() -> None:
    score = {"enabled": [{"name": "ImageLocality"}], "disabled": [{"name": "*"}]}
    config = load_config(document("v1beta2", profiles=[{"plugins": {"score": score}}]))
    assert weights(config) == {"ImageLocality": 1}


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
def test_plugins_whose_work_another_does_are_left_out_with_a_warning(version: str) -> None:
    limits = {
        "enabled": [{"name": "EBSLimits"}, {"name": "NodeName"}],
        "disabled": [{"name": "GCEPDLimits"}],
    }
    config = load_config(document(version, profiles=[{"plugins": {"filter": limits}}]))
    assert warned(config) == [
        "profiles[0].plugins.filter.enabled",
        "profiles[0].plugins.filter.disabled",
    ]


def test_arguments_of_the_version_are_read() -> None:
    args = {"apiVersion": f"{GROUP}/v1beta3", "kind": "InterPodAffinityArgs"}
    config = [{"name": "InterPodAffinity", "args": {**args, "hardPodAffinityWeight": 5}}]
    found = load_config(document("v1beta3", profiles=[{"pluginConfig": config}]))
    assert found.profiles[0].args["InterPodAffinity"].hard_pod_affinity_weight == 5


def test_addresses_of_v1beta2_have_no_effect_and_are_mentioned_unless_they_are_off() -> None:
    on = document("v1beta2", healthzBindAddress="0.0.0.0:10251", metricsBindAddress=":0")
    assert warned(load_config(on)) == ["healthzBindAddress"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"profiles": [{"percentageOfNodesToScore": 5}]}, "profiles[0].percentageOfNodesToScore"),
        ({"profiles": [{"plugins": {"multiPoint": {}}}]}, "profiles[0].plugins.multiPoint"),
        ({"healthz": ""}, "healthz"),
        ({"profiles": [{"plugins": {"score": []}}]}, "profiles[0].plugins.score"),
        ({"profiles": {"a": 1}}, "profiles"),
        ({"profiles": [{"plugins": {"score": {"enabled": 1}}}]}, "profiles[0].plugins.score"),
    ],
)
def test_what_the_version_does_not_have_is_an_error(fields: Mapping[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(document("v1beta2", **fields))
    assert len(caught.value.errors) == 1
    assert caught.value.errors[0].path.startswith(path)


def test_the_converted_document_is_v1_and_the_one_given_is_not_changed() -> None:
    given = document("v1beta2", profiles=[{"plugins": {"score": {"disabled": []}}}], parallelism=8)
    before = copy.deepcopy(given)
    v1 = converted(given).document
    assert given == before
    assert v1["apiVersion"] == f"{GROUP}/v1"
    assert load_config(v1).profiles == load_config(given).profiles
    assert load_config(v1).warnings == load_config(given).warnings[1:]
