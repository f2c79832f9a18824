"""The merge rules: which plugins run where, in which order, with which weight."""

from typing import Any

import pytest

from podsched.config.errors import ConfigError
from podsched.config.load import default_config, load_config, to_plain
from podsched.config.plugins import DEFAULT_PLUGINS, ExtensionPoint
from podsched.config.profiles import Profile

SCORE = ExtensionPoint.SCORE
DEFAULT_SCORES = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("VolumeBinding", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
]


def profile(plugins: dict[str, Any]) -> Profile:
    (only,) = load_config({"profiles": [{"plugins": plugins}]}).profiles
    return only


def refs(*names: str, weight: int | None = None) -> list[dict[str, Any]]:
    extra = {} if weight is None else {"weight": weight}
    return [{"name": name, **extra} for name in names]


def test_the_default_profile_runs_kube_schedulers_plugins_in_its_order() -> None:
    default = default_config().profiles[0]
    assert list(default.plugins[SCORE]) == DEFAULT_SCORES
    assert {point.value: default.names(point) for point in ExtensionPoint if point != SCORE} == {
        "preEnqueue": (
            "SchedulingGates",
            "DynamicResources",
            "DefaultPreemption",
            "GangScheduling",
        ),
        "queueSort": ("PrioritySort",),
        "preFilter": (
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ),
        "filter": (
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ),
        "postFilter": ("DynamicResources", "DefaultPreemption"),
        "preScore": (
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "VolumeBinding",
            "PodTopologySpread",
            "InterPodAffinity",
            "NodeResourcesBalancedAllocation",
        ),
        "reserve": ("VolumeBinding", "DynamicResources"),
        "permit": ("GangScheduling",),
        "preBind": ("VolumeBinding", "DynamicResources"),
        "bind": ("DefaultBinder",),
        "postBind": (),
        "placementGenerate": ("TopologyPlacementGenerator",),
        "placementScore": ("NodeResourcesFit", "PodGroupPodsCount"),
    }


def test_a_weight_at_the_point_wins_and_moves_the_plugin_to_the_front() -> None:
    scores = profile({"score": {"enabled": refs("ImageLocality", weight=9)}}).plugins[SCORE]
    assert scores[0] == ("ImageLocality", 9)
    assert list(scores[1:]) == DEFAULT_SCORES[:-1]


def test_enabling_without_a_weight_means_one_and_not_the_default() -> None:
    scores = profile({"score": {"enabled": refs("TaintToleration")}}).plugins[SCORE]
    assert scores[0] == ("TaintToleration", 1)


def test_disabling_all_at_a_point_leaves_the_other_points_alone() -> None:
    result = profile(
        {"score": {"disabled": refs("*"), "enabled": refs("NodeResourcesFit", weight=5)}}
    )
    assert result.plugins[SCORE] == (("NodeResourcesFit", 5),)
    assert result.names(ExtensionPoint.FILTER) == default_config().profiles[0].names(
        ExtensionPoint.FILTER
    )


def test_disabling_one_at_a_point_removes_it_there_alone() -> None:
    result = profile({"filter": {"disabled": refs("TaintToleration")}})
    assert "TaintToleration" not in result.names(ExtensionPoint.FILTER)
    assert ("TaintToleration", 3) in result.plugins[SCORE]


def test_a_plugin_both_disabled_and_enabled_at_a_point_runs_last() -> None:
    scores = profile(
        {
            "score": {
                "disabled": refs("TaintToleration"),
                "enabled": refs("TaintToleration", weight=4),
            }
        }
    ).plugins[SCORE]
    assert list(scores) == [*DEFAULT_SCORES[1:], ("TaintToleration", 4)]


def test_disabling_in_multi_point_removes_the_plugin_everywhere() -> None:
    result = profile({"multiPoint": {"disabled": refs("NodeAffinity")}})
    assert all("NodeAffinity" not in result.names(point) for point in ExtensionPoint)
    assert "NodeAffinity" not in result.args


def test_a_default_enabled_again_in_multi_point_keeps_its_place_and_takes_the_weight() -> None:
    scores = profile({"multiPoint": {"enabled": refs("NodeAffinity", weight=50)}}).plugins[SCORE]
    assert [name for name, _ in scores] == [name for name, _ in DEFAULT_SCORES]
    assert ("NodeAffinity", 50) in scores


def test_multi_point_can_start_from_nothing() -> None:
    result = profile(
        {
            "multiPoint": {
                "disabled": refs("*"),
                "enabled": refs("DefaultBinder", "PrioritySort", "NodeName"),
            }
        }
    )
    running = {name for point in ExtensionPoint for name in result.names(point)}
    assert running == {"DefaultBinder", "PrioritySort", "NodeName"}


def test_the_weight_of_a_point_wins_over_that_of_multi_point() -> None:
    scores = profile(
        {
            "multiPoint": {"enabled": refs("ImageLocality", weight=3)},
            "score": {"enabled": refs("ImageLocality", weight=8)},
        }
    ).plugins[SCORE]
    assert ("ImageLocality", 8) in scores
    assert len(scores) == len(DEFAULT_SCORES)


def test_disabling_an_unknown_name_is_worth_a_warning() -> None:
    config = load_config({"profiles": [{"plugins": {"filter": {"disabled": refs("Foo")}}}]})
    assert config.warnings == (
        "profiles[0].plugins.filter.disabled[0].name: no plugin is named Foo",
    )


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        (
            {"score": {"enabled": refs("NodeName")}},
            'score.enabled[0].name: Invalid value: "NodeName": the plugin does not extend Score',
        ),
        (
            {"filter": {"enabled": refs("EBSLimits")}},
            'filter.enabled[0].name: Invalid value: "EBSLimits": '
            'was invalid in version "kubescheduler.config.k8s.io/v1"',
        ),
        (
            {"filter": {"enabled": refs("NodeName", "NodeName")}},
            'filter.enabled[1].name: Duplicate value: "NodeName"',
        ),
        (
            {"score": {"enabled": refs("ImageLocality", weight=-1)}},
            "score.enabled[0].weight: Invalid value: -1: must not be negative",
        ),
        (
            {"bind": {"disabled": refs("*")}},
            "bind: Required value: at least one bind plugin must be enabled",
        ),
        (
            {"queueSort": {"disabled": refs("PrioritySort")}},
            "queueSort: Invalid value: []: must be exactly one queue sort plugin",
        ),
        (
            {"queueSort": {"disabled": refs("*"), "enabled": refs("Nope")}},
            'queueSort.enabled[0].name: Not found: "Nope": no such plugin is registered',
        ),
        ({"filter": {"enabled": [{}]}}, "filter.enabled[0].name: Required value"),
    ],
)
def test_a_profile_that_cannot_run_is_refused(plugins: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        profile(plugins)
    assert str(caught.value) == f"profiles[0].plugins.{expected}"


def test_a_profile_takes_the_percentage_of_the_file_unless_it_has_its_own() -> None:
    config = load_config(
        {
            "percentageOfNodesToScore": 40,
            "profiles": [
                {"schedulerName": "a"},
                {"schedulerName": "b", "percentageOfNodesToScore": 0},
            ],
        }
    )
    assert [item.percentage_of_nodes_to_score for item in config.profiles] == [40, 0]


@pytest.mark.parametrize(
    ("extender", "expected"),
    [
        ({"bindVerb": "bind"}, [True, False]),
        ({"preemptVerb": "preempt"}, [True, False]),
        ({"filterVerb": "filter"}, [True, True]),
        ({"prioritizeVerb": "prioritize", "weight": 1}, [True, True]),
    ],
)
def test_nodes_are_compared_by_score_plugins_and_by_extenders_that_filter_or_score(
    extender: dict[str, Any], expected: list[bool]
) -> None:
    config = load_config(
        {
            "extenders": [{"urlPrefix": "http://extender", **extender}],
            "profiles": [
                {"schedulerName": "a"},
                {"schedulerName": "b", "plugins": {"score": {"disabled": [{"name": "*"}]}}},
            ],
        }
    )
    assert [item.compares_nodes for item in config.profiles] == expected


def test_several_profiles_each_need_a_name() -> None:
    with pytest.raises(ConfigError, match=r"profiles\[1\]\.schedulerName: Required value"):
        load_config({"profiles": [{"schedulerName": "a"}, {}]})


def test_a_profile_is_found_by_the_pods_scheduler_name() -> None:
    config = load_config({"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]})
    found = config.profile("b")
    assert found is not None
    assert found.scheduler_name == "b"
    assert config.profile("default-scheduler") is None


def test_the_default_set_has_the_weights_of_kube_scheduler() -> None:
    assert {spec.name: spec.weight for spec in DEFAULT_PLUGINS if spec.weight} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "PodGroupPodsCount": 1,
    }


def label_args(label: str, kind: str = "NodeLabelPriorityArgs") -> dict[str, Any]:
    return {"kind": kind, "label": label, "presence": True}


def test_a_plugin_may_run_twice_under_names_of_the_users_own() -> None:
    enabled = [{"name": "PreferSSD", "weight": 3}, {"name": "PreferFast", "weight": 2}]
    config = load_config({
        "profiles": [{
            "plugins": {"score": {"enabled": enabled}},
            "pluginConfig": [
                {"name": "PreferSSD", "args": label_args("ssd")},
                {"name": "PreferFast", "args": label_args("fast")},
            ],
        }]
    })  # fmt: skip
    (found,) = config.profiles
    assert {**found.own_names} == dict.fromkeys(("PreferFast", "PreferSSD"), "NodeLabelPriority")
    assert [found.args[name].label for name in ("PreferFast", "PreferSSD")] == ["fast", "ssd"]
    assert ("PreferSSD", 3) in found.plugins[ExtensionPoint.SCORE]
    assert load_config(to_plain(config)).profiles == config.profiles, "printed and read again"


def test_only_plugins_that_say_so_may_have_other_names() -> None:
    args = {"kind": "GeneralPredicatesArgs"}
    with pytest.raises(ConfigError, match=r"pluginConfig\[0\]\.name: Not found: \"Mine\""):
        load_config({"profiles": [{"pluginConfig": [{"name": "Mine", "args": args}]}]})


def test_resources_that_extenders_check_are_ignored_by_all_that_check_resources() -> None:
    managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
    plugins = {"filter": {"enabled": [{"name": "GeneralPredicates"}]}}
    extender = {"urlPrefix": "http://e", "filterVerb": "f", "managedResources": managed}
    config = load_config({"profiles": [{"plugins": plugins}], "extenders": [extender]})
    args = config.profiles[0].args
    for name in ("NodeResourcesFit", "GeneralPredicates"):
        assert args[name].ignored_resources == ("example.com/gpu",)
