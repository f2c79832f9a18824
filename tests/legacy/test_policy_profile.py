"""Policies as configurations: which plugins run, in which order, with which arguments."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, load_config
from podsched.config.plugins import IN_TREE_PLUGINS, ExtensionPoint
from podsched.config.profiles import Profile
from podsched.legacy.policy_profile import (
    ALGORITHM_PROVIDERS,
    ARGUMENTS,
    DEFAULT_PREDICATES,
    DEFAULT_PRIORITIES,
    MANDATORY,
    PREDICATES,
    PRIORITIES,
    max_pd_volumes,
    policy_configuration,
    provider_configuration,
)

#: As kube-scheduler v1.16 has it, with the predicates of v1.14 at their places.
ORDER = [
    "NodeUnschedulable",
    "GeneralPredicates",
    "NoDiskConflict",
    "TaintToleration",
    "MaxEBSVolumeCount",
    "MaxGCEPDVolumeCount",
    "NodeVolumeLimits",
    "MaxAzureDiskVolumeCount",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
]


def loaded(**policy: Any) -> SchedulerConfiguration:
    return load_config(policy_configuration({"kind": "Policy", **policy}))


def profile(**policy: Any) -> Profile:
    return loaded(**policy).profiles[0]


def filters(found: Profile) -> list[str]:
    return [*found.names(ExtensionPoint.FILTER)]


def scores(found: Profile) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in found.plugins[ExtensionPoint.SCORE]}


def refused(**policy: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        policy_configuration({"kind": "Policy", **policy})
    return str(caught.value).splitlines()


def test_lists_that_are_missing_are_those_of_the_default_provider() -> None:
    found = profile()
    assert filters(found) == ORDER
    assert scores(found) == {
        "SelectorSpreadPriority": 1,
        "InterPodAffinityPriority": 1,
        "LeastRequestedPriority": 1,
        "BalancedResourceAllocation": 1,
        "NodePreferAvoidPodsPriority": 10000,
        "NodeAffinityPriority": 1,
        "TaintTolerationPriority": 1,
        "ImageLocalityPriority": 1,
        "EvenPodsSpreadPriority": 1,
    }


def test_of_empty_lists_the_mandatory_predicates_remain() -> None:
    found = profile(predicates=[], priorities=[])
    assert filters(found) == ["NodeUnschedulable", "TaintToleration"]
    assert scores(found) == {}, "then every node has the same score"


def test_pods_are_queued_preempt_and_are_bound_as_ever() -> None:
    found = profile(predicates=[])
    assert found.names(ExtensionPoint.QUEUE_SORT) == ("PrioritySort",)
    assert found.names(ExtensionPoint.POST_FILTER) == ("DefaultPreemption",)
    assert found.names(ExtensionPoint.PRE_ENQUEUE) == ("SchedulingGates", "DefaultPreemption")
    assert found.names(ExtensionPoint.BIND) == ("DefaultBinder",)
    assert found.names(ExtensionPoint.RESERVE) == ()


@pytest.mark.parametrize("check_all", [False, True])
def test_volumes_are_bound_where_check_volume_binding_runs(check_all: bool) -> None:
    found = profile(predicates=[{"name": "CheckVolumeBinding"}], alwaysCheckAllPredicates=check_all)
    name = "AlwaysCheckAllPredicates" if check_all else "VolumeBinding"
    assert found.names(ExtensionPoint.RESERVE) == (name,)
    assert found.names(ExtensionPoint.PRE_BIND) == (name,)


@pytest.mark.parametrize(("name", "plugin"), [*PREDICATES.items(), ("PodFitsPorts", "NodePorts")])
def test_every_predicate_runs_under_its_name(name: str, plugin: str) -> None:
    if name in ("CheckNodeLabelPresence", "CheckServiceAffinity"):
        said = refused(predicates=[{"name": name}])
        assert said == [f'predicates[0].name: Not found: "{name}": needs an argument']
    else:
        assert plugin in filters(profile(predicates=[{"name": name}]))


@pytest.mark.parametrize("name", PRIORITIES)
def test_every_priority_runs_under_its_name(name: str) -> None:
    assert scores(profile(priorities=[{"name": name, "weight": 7}])) == {name: 7}


def test_predicates_run_in_kube_schedulers_order_whatever_that_of_the_file() -> None:
    labels = {"labels": ["ssd"]}
    named = [
        {"name": "Where", "argument": {"serviceAffinity": labels}},
        {"name": "MatchInterPodAffinity"},
        {"name": "What", "argument": {"labelsPresence": labels}},
        {"name": "CheckNodeMemoryPressure"},
        {"name": "HostName"},
    ]
    assert filters(profile(predicates=named)) == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "What",
        "Where",
        "CheckNodeMemoryPressure",
        "InterPodAffinity",
    ]


def test_arguments_make_plugins_under_the_names_of_the_file() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    ratio = {"shape": shape, "resources": [{"name": "cpu", "weight": 3}]}
    priorities = [
        {"name": "RackSpread", "weight": 3, "argument": {"serviceAntiAffinity": {"label": "rack"}}},
        {"name": "SSD", "weight": 1, "argument": {"labelPreference": {"label": "ssd"}}},
        {"name": "HDD", "weight": 2, "argument": {"labelPreference": {"label": "hdd"}}},
        {"name": "Ratio", "weight": 4, "argument": {"requestedToCapacityRatioArguments": ratio}},
    ]
    found = profile(predicates=[], priorities=priorities)
    assert scores(found) == {"RackSpread": 3, "SSD": 1, "HDD": 2, "Ratio": 4}
    assert {**found.own_names} == {
        "RackSpread": "ServiceAntiAffinity",
        "SSD": "NodeLabelPriority",
        "HDD": "NodeLabelPriority",
        "Ratio": "RequestedToCapacityRatioPriority",
    }
    assert found.args["HDD"].label == "hdd"
    assert [point.score for point in found.args["Ratio"].shape] == [0, 10]


def test_a_predicate_and_a_priority_may_have_one_name() -> None:
    predicates = [{"name": "Rack", "argument": {"serviceAffinity": {"labels": ["rack"]}}}]
    priorities = [
        {"name": "Rack", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "rack"}}}
    ]
    found = profile(predicates=predicates, priorities=priorities)
    assert (filters(found)[-1], scores(found)) == ("Rack", {"Rack-priority": 1})


def test_of_two_with_one_name_the_last_counts() -> None:
    twice = [{"name": "EqualPriority", "weight": weight} for weight in (1, 5)]
    assert scores(profile(priorities=twice)) == {"EqualPriority": 5}


def test_the_symmetric_weight_goes_to_inter_pod_affinity() -> None:
    name = "InterPodAffinityPriority"
    given = profile(hardPodAffinitySymmetricWeight=42)
    assert given.args[name].hard_pod_affinity_weight == 42
    assert profile().args[name].hard_pod_affinity_weight == 1


def test_spread_constraints_have_no_defaults() -> None:
    assert profile().args["PodTopologySpread"].defaulting_type == "List"


def test_checking_all_predicates_is_one_plugin_of_them_all() -> None:
    found = profile(alwaysCheckAllPredicates=True)
    assert filters(found) == ["AlwaysCheckAllPredicates"]
    assert [p.name for p in found.args["AlwaysCheckAllPredicates"].predicates] == ORDER


def test_the_environment_limits_volumes_of_nodes_that_declare_no_limit() -> None:
    document = policy_configuration({"kind": "Policy"}, limit=7)
    args = load_config(document).profiles[0].args
    for name in ("MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "MaxAzureDiskVolumeCount"):
        assert args[name].max_volumes == 7


def test_the_environments_limit_is_a_positive_number() -> None:
    assert (max_pd_volumes(""), max_pd_volumes("12")) == (0, 12)
    for text in ("0", "-3", "many", "٣", "9" * 5000):
        with pytest.raises(ConfigError, match=r"KUBE_MAX_PD_VOLS.*must be a positive integer"):
            max_pd_volumes(text)


def test_extenders_in_the_old_spelling_are_those_of_today() -> None:
    old = {
        "urlPrefix": "https://127.0.0.1:8080/prefix",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "enableHttps": True,
        "tlsConfig": {"insecure": True},
        "httpTimeout": 100000000,
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
    }
    config = loaded(extenders=[old], predicates=[{"name": "GeneralPredicates"}])
    (extender,) = config.extenders
    assert (extender.enable_https, extender.http_timeout, extender.weight) == (True, 0.1, 5)
    assert extender.tls_config is not None and extender.tls_config.insecure
    ignored = config.profiles[0].args["GeneralPredicates"].ignored_resources
    assert ignored == ("example.com/foo",)


def test_the_cluster_autoscaler_packs_instead_of_spreading() -> None:
    default, autoscaler = (
        scores(load_config(provider_configuration(name)).profiles[0])
        for name in ALGORITHM_PROVIDERS
    )
    assert default.keys() - autoscaler.keys() == {"LeastRequestedPriority"}
    assert autoscaler.keys() - default.keys() == {"MostRequestedPriority"}


def test_what_has_no_name_or_no_equivalent_is_refused_with_all_else_that_is_wrong() -> None:
    preference = {"labelPreference": {"label": "ssd"}}
    assert refused(
        predicates=[{"name": "Nothing"}],
        priorities=[
            {"name": "NodeAffinity", "weight": 1, "argument": preference},
            {"name": "Nothing", "weight": 1},
            {"name": "LeastRequestedPriority", "weight": 0},
        ],
        extenders=[{"urlPrefix": "http://e", "prioritizeVerb": "p"}],
    ) == [
        "priorities[2].weight: Invalid value: 0: should have a positive weight applied to it or it"
        " has overflown",
        'predicates[0].name: Not found: "Nothing": predicate type not found',
        'priorities[0].name: Invalid value: "NodeAffinity": has no equivalent: it is the name of'
        " another plugin; choose another name",
        'priorities[1].name: Not found: "Nothing": priority type not found',
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ]


def test_the_tables_name_plugins_that_there_are() -> None:
    plugins = {*PREDICATES.values(), *PRIORITIES, *ARGUMENTS.values()}
    assert plugins <= IN_TREE_PLUGINS.keys()
    assert {*DEFAULT_PREDICATES, *MANDATORY} <= PREDICATES.keys()
    assert DEFAULT_PRIORITIES.keys() <= set(PRIORITIES)
