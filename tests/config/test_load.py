"""Reading KubeSchedulerConfiguration files: what is accepted, refused, filled in and printed."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.names import KEY_ERROR
from podsched.config.errors import ConfigError
from podsched.config.load import (
    MAX_BYTES,
    default_config,
    load_config,
    to_plain,
    to_public,
    to_yaml,
)
from podsched.config.model import Model
from podsched.config.plugins import ExtensionPoint, PluginSpec
from support.examples import examples

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def mistakes(source: str | dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(source)
    return [str(error) for error in caught.value.errors]


def with_args(plugin: str, args: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}


def test_the_default_is_kube_schedulers() -> None:
    config = default_config()
    effective = config.effective
    assert effective.parallelism == 16
    assert effective.percentage_of_nodes_to_score is None
    assert (effective.pod_initial_backoff_seconds, effective.pod_max_backoff_seconds) == (1, 10)
    assert config.leader_election.lock == "kube-system/kube-scheduler"
    assert not effective.delay_cache_until_active
    assert config.extenders == config.warnings == ()
    (profile,) = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    plain = to_plain(config)
    assert plain["clientConnection"] == {
        "contentType": "application/vnd.kubernetes.protobuf",
        "qps": 50.0,
        "burst": 100,
    }
    assert plain["enableProfiling"] is plain["enableContentionProfiling"] is False


def test_an_empty_file_with_a_header_is_the_default() -> None:
    assert load_config(HEADER) == default_config() == load_config({})


def test_what_is_printed_reads_back_to_the_same() -> None:
    config = load_config(
        {
            "percentageOfNodesToScore": 30,
            "leaderElection": {"leaseDuration": "1m30s", "resourceName": "mine"},
            "profiles": [
                {
                    "schedulerName": "a",
                    "plugins": {
                        "multiPoint": {
                            "disabled": [{"name": "*"}],
                            "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}],
                        }
                    },
                },
                {
                    "schedulerName": "b",
                    "percentageOfNodesToScore": 5,
                    "pluginConfig": [
                        {
                            "name": "NodeAffinity",
                            "args": {
                                "addedAffinity": {
                                    "requiredDuringSchedulingIgnoredDuringExecution": {
                                        "nodeSelectorTerms": [
                                            {
                                                "matchExpressions": [
                                                    {"key": "a", "operator": "Exists"}
                                                ]
                                            }
                                        ]
                                    }
                                }
                            },
                        },
                        {
                            "name": "PodTopologySpread",
                            "args": {
                                "defaultingType": "List",
                                "defaultConstraints": [
                                    {
                                        "maxSkew": 1,
                                        "topologyKey": "zone",
                                        "whenUnsatisfiable": "DoNotSchedule",
                                    }
                                ],
                            },
                        },
                    ],
                },
            ],
            "extenders": [
                {
                    "urlPrefix": "http://x",
                    "enableHTTPS": True,
                    "httpTimeout": "100ms",
                    "tlsConfig": {"caData": "YWJj"},
                    "weight": 2,
                }
            ],
        }
    )
    printed = to_yaml(config)
    assert printed.startswith(HEADER)
    assert load_config(printed) == config


def test_unknown_fields_are_errors_wherever_they_are() -> None:
    assert mistakes(
        {
            "parallelsm": 1,
            "leaderElection": {"leaseduration": "5s"},
            "profiles": [
                {
                    "plugins": {"scores": {}},
                    "pluginConfig": [{"name": "InterPodAffinity", "args": {"weight": 1}}],
                }
            ],
        }
    ) == [
        "leaderElection.leaseduration: Unknown field",
        "profiles[0].plugins.scores: Unknown field",
        "parallelsm: Unknown field",
        "profiles[0].pluginConfig[0].args.weight: Unknown field",
    ]


def test_python_names_of_fields_are_unknown_in_files() -> None:
    assert mistakes({"pod_max_backoff_seconds": 3}) == ["pod_max_backoff_seconds: Unknown field"]


def test_a_key_given_twice_is_an_error() -> None:
    (mistake,) = mistakes(HEADER + "parallelism: 1\nparallelism: 2\n")
    assert "parallelism" in mistake
    assert "already" in mistake


def test_all_mistakes_are_found_in_one_run_whatever_else_is_wrong() -> None:
    found = mistakes(
        HEADER
        + """
parallelism: many
percentageOfNodesToScore: 101
podInitialBackoffSeconds: 0
leaderElection: {leaseDuration: 5s, renewDeadline: 7}
profiles:
- schedulerName: a
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 101}
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: LeastAllocated
        resources: [{name: cpu, weight: 101}, {name: memory, weight: 1.5}]
- schedulerName: a
"""
    )
    assert sorted(found) == sorted(
        [
            'parallelism: Invalid value: "many": must be an integer',
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
            "leaderElection.renewDeadline: Invalid value: 7: "
            'must be a duration such as "15s" or "1m30s"',
            'leaderElection.leaseDuration: Invalid value: "5s": '
            "must be greater than renewDeadline (10s)",
            "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: "
            "not in valid range [0, 100]",
            "profiles[0].pluginConfig[1].args.scoringStrategy.resources[0].weight: "
            "Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
            "profiles[0].pluginConfig[1].args.scoringStrategy.resources[1].weight: "
            "Invalid value: 1.5: must be an integer",
            'profiles[1].schedulerName: Duplicate value: "a"',
        ]
    )


def test_a_value_that_cannot_be_read_is_not_complained_about_twice() -> None:
    assert mistakes({"podInitialBackoffSeconds": 20, "podMaxBackoffSeconds": "x"}) == [
        'podMaxBackoffSeconds: Invalid value: "x": must be an integer'
    ]


def test_mistakes_inside_an_affinity_are_found_beside_its_unknown_fields() -> None:
    term = {"matchExpressions": [{"key": "a b", "operator": "Inn", "vals": ["x"]}]}
    required = {"nodeSelectorTerms": [term]}
    args = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    path = (
        "profiles[0].pluginConfig[0].args.addedAffinity."
        "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
    )
    found = [line.removeprefix(path) for line in mistakes(with_args("NodeAffinity", args))]
    assert found[0] == ".vals: Unknown field"
    assert found[1].startswith('.key: Invalid value: "a b": name part')
    assert found[2].startswith('.operator: Unsupported value: "Inn": supported values: "DoesNot')
    assert len(found) == 3


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Best"}},
            [
                'scoringStrategy.type: Unsupported value: "Best": supported values: '
                '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
            ],
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            [
                "scoringStrategy.requestedToCapacityRatio: Required value: "
                "must be specified when type is RequestedToCapacityRatio"
            ],
        ),
        (
            "NodeResourcesFit",
            {
                "ignoredResources": ["a/b/c"],
                "ignoredResourceGroups": ["a/b"],
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [
                            {"utilization": 50, "score": 11},
                            {"utilization": 50, "score": 1},
                        ]
                    },
                },
            },
            [
                f'ignoredResources[0]: Invalid value: "a/b/c": {KEY_ERROR}',
                'ignoredResourceGroups[0]: Invalid value: "a/b": '
                "resource group name can't contain '/'",
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: "
                "Invalid value: 50: values must be sorted in increasing order",
                "scoringStrategy.requestedToCapacityRatio.shape[0].score: "
                "Invalid value: 11: not in valid range [0, 10]",
            ],
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
            [
                "resources[0].weight: Invalid value: 2: must be 1",
                'resources[1].name: Duplicate value: "cpu"',
            ],
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                "minCandidateNodesPercentage: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                "minCandidateNodesAbsolute: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
        (
            "PodTopologySpread",
            {
                "defaultConstraints": [
                    {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never"},
                    {
                        "maxSkew": 1,
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {},
                    },
                ]
            },
            [
                'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[0].topologyKey: Required value: can not be empty",
                'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"',
                "defaultConstraints[1].labelSelector: Forbidden: "
                "constraint must not define a selector, as they deduced for each pod",
            ],
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1},
            [
                "bindTimeoutSeconds: Invalid value: -1: "
                "invalid BindTimeoutSeconds, should not be a negative value"
            ],
        ),
        (
            "DynamicResources",
            {"bindingTimeout": "500ms"},
            ["bindingTimeout: Invalid value: 0.5: must be at least 1 second"],
        ),
        (
            "InterPodAffinity",
            {"kind": "NodeAffinityArgs", "apiVersion": "v1"},
            [
                'kind: Invalid value: "NodeAffinityArgs": must be InterPodAffinityArgs',
                'apiVersion: Invalid value: "v1": must be kubescheduler.config.k8s.io/v1',
            ],
        ),
        ("NodeAffinity", "x", [': Invalid value: "x": must be an object']),
    ],
)
def test_arguments_are_checked_as_kube_scheduler_does(
    plugin: str, args: Any, expected: list[str]
) -> None:
    path = "profiles[0].pluginConfig[0].args"
    found = [
        line.removeprefix(path).removeprefix(".") for line in mistakes(with_args(plugin, args))
    ]
    assert found == expected


def test_arguments_left_out_take_their_defaults() -> None:
    args = {
        name: model.model_dump(by_alias=True, exclude_none=True)
        for name, model in default_config().profiles[0].args.items()
    }
    two = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    assert args["NodeResourcesFit"]["scoringStrategy"]["type"] == "LeastAllocated"
    assert list(args["NodeResourcesFit"]["scoringStrategy"]["resources"]) == two
    assert list(args["NodeResourcesBalancedAllocation"]["resources"]) == two
    assert args["InterPodAffinity"] == {
        "hardPodAffinityWeight": 1,
        "ignorePreferredTermsOfExistingPods": False,
    }
    assert args["PodTopologySpread"]["defaultingType"] == "System"
    assert args["VolumeBinding"] == {"bindTimeoutSeconds": 600}
    assert args["DefaultPreemption"] == {
        "minCandidateNodesPercentage": 10,
        "minCandidateNodesAbsolute": 100,
    }


def test_zero_and_null_count_as_unset_where_go_says_so() -> None:
    config = load_config(
        {
            "parallelism": None,
            "leaderElection": {"leaseDuration": "0s", "resourceName": ""},
            "clientConnection": {"qps": 0, "burst": 0},
            "profiles": [
                {
                    "pluginConfig": [
                        {
                            "name": "NodeResourcesBalancedAllocation",
                            "args": {"resources": [{"name": "cpu", "weight": 0}]},
                        }
                    ]
                }
            ],
        }
    )
    assert config.effective.parallelism == 16
    assert config.leader_election == default_config().leader_election
    assert config.effective.client_connection == default_config().effective.client_connection
    args = config.profiles[0].args["NodeResourcesBalancedAllocation"]
    assert [(item.name, item.weight) for item in args.resources] == [("cpu", 1)]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("apiVersion: kubescheduler.config.k8s.io/v1", ["kind: Required value"]),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration",
            [
                'apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1beta1": '
                "must be kubescheduler.config.k8s.io/v1"
            ],
        ),
        (
            "kind: Pod",
            [
                'kind: Invalid value: "Pod": must be KubeSchedulerConfiguration',
                "apiVersion: Required value",
            ],
        ),
    ],
)
def test_another_kind_or_version_is_refused(header: str, expected: list[str]) -> None:
    assert mistakes(header) == expected


@pytest.mark.parametrize("source", ["a: [", "[]", "", HEADER + "---\n" + HEADER, "x: &x {y: *x}"])
def test_what_is_no_configuration_at_all_is_refused_with_a_reason(source: str) -> None:
    assert mistakes(source)


def test_a_key_that_cannot_be_read_is_not_shown() -> None:
    (mistake,) = mistakes({"extenders": [{"tlsConfig": {"keyData": "-----SECRET"}}]})
    assert "SECRET" not in mistake


@pytest.mark.parametrize("url", ["http://e/x?a=b", "http://e/#f", "http://e x/", "http://e/\n"])
def test_a_prefix_to_which_no_verb_can_be_appended_is_refused(url: str) -> None:
    (mistake,) = mistakes({"extenders": [{"urlPrefix": url, "filterVerb": "f"}]})
    assert "must be a URL such as http://extender:8888/scheduler" in mistake


def test_extenders_are_checked_by_themselves_and_together() -> None:
    found = mistakes(
        {
            "extenders": [
                {
                    "urlPrefix": "http://x",
                    "prioritizeVerb": "p",
                    "bindVerb": "b",
                    "managedResources": [{"name": "cpu"}, {"name": "a.com/b"}],
                },
                {
                    "urlPrefix": "http://y",
                    "bindVerb": "b",
                    "managedResources": [{"name": "a.com/b"}],
                },
            ]
        }
    )
    assert found == [
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        'extenders[0].managedResources[0].name: Invalid value: "cpu": '
        "is an invalid extended resource name",
        'extenders[1].managedResources[0].name: Invalid value: "a.com/b": '
        "duplicate extender managed resource name",
        'extenders: Invalid value: "found 2 extenders implementing bind": '
        "only one extender can implement bind",
    ]


def test_node_resources_fit_ignores_what_an_extender_looks_after() -> None:
    managed = [{"name": "a.com/b", "ignoredByScheduler": True}, {"name": "a.com/c"}]
    config = load_config(
        {"extenders": [{"urlPrefix": "http://x", "filterVerb": "f", "managedResources": managed}]}
    )
    assert config.profiles[0].args["NodeResourcesFit"].ignored_resources == ("a.com/b",)
    assert config.extenders[0].http_timeout == 5.0


class HelloArgs(Model):
    greeting: str = "hello"


HELLO = PluginSpec("Hello", frozenset({ExtensionPoint.SCORE}), HelloArgs)


def test_a_users_plugin_may_be_named_once_it_is_registered() -> None:
    source = {
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Hello", "weight": 7}]}},
                "pluginConfig": [{"name": "Hello", "args": {"greeting": "hi"}}],
            }
        ]
    }
    (profile,) = load_config(source, known_plugins={"Hello": HELLO}).profiles
    assert ("Hello", 7) in profile.plugins[ExtensionPoint.SCORE]
    assert profile.args["Hello"] == HelloArgs(greeting="hi")
    assert mistakes(source) == [
        "profiles[0].plugins.multiPoint.enabled[0].name: "
        'Not found: "Hello": no such plugin is registered',
        'profiles[0].pluginConfig[0].name: Not found: "Hello": no such plugin is registered',
    ]


def test_a_users_plugin_without_a_model_gets_its_arguments_as_they_are() -> None:
    plain = PluginSpec("Plain", frozenset({ExtensionPoint.FILTER}))
    source = {
        "profiles": [
            {
                "plugins": {"filter": {"enabled": [{"name": "Plain"}]}},
                "pluginConfig": [{"name": "Plain", "args": {"any": ["thing", ""]}}],
            }
        ]
    }
    config = load_config(source, known_plugins={"Plain": plain})
    assert config.profiles[0].args["Plain"] == {"any": ["thing", ""]}
    assert load_config(to_yaml(config), known_plugins={"Plain": plain}) == config


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in plain data, as the steps that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if path else []
    for key, item in inner if isinstance(value, dict | list) else ():
        found += places(item, (*path, key)) if isinstance(item, dict | list) else [(*path, key)]
    return found


FULL = to_plain(
    load_config(
        {
            "profiles": [
                with_args(
                    "NodeAffinity",
                    {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchFields": [
                                            {"key": "a", "operator": "In", "values": ["b"]}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                )["profiles"][0]
            ],
            "extenders": [
                {
                    "urlPrefix": "http://x",
                    "filterVerb": "f",
                    "managedResources": [{"name": "a.com/b"}],
                }
            ],
        }
    )
)


@given(st.data())
@examples(200)
def test_whatever_a_field_holds_the_answer_is_a_configuration_or_its_mistakes(
    data: st.DataObject,
) -> None:
    document = copy.deepcopy(FULL)
    *above, last = data.draw(st.sampled_from(places(document)))
    holder: Any = document
    for step in above:
        holder = holder[step]
    holder[last] = data.draw(JUNK)
    try:
        config = load_config(document)
    except ConfigError as error:
        assert error.errors
        assert str(error)
    else:
        assert load_config(to_yaml(config)) == config


def test_what_is_accepted_and_has_no_effect_is_said() -> None:
    config = load_config(
        {
            "extenders": [{"urlPrefix": "http://a"}, {"urlPrefix": "http://b", "filterVerb": "f"}],
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": "/etc/scheduler.conf", "qps": 100, "burst": 100},
            "delayCacheUntilActive": True,
            "parallelism": 32,
        }
    )
    assert [warning.split(":")[0] for warning in config.warnings] == [
        "extenders[0]",
        "parallelism",
        "clientConnection.kubeconfig",
        "clientConnection.qps",
    ]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("nonsense", "nonsense"),
        ("ftp://a", "ftp://a"),
        ("http://", "http://"),
        ("http://a:99999", "http://a:99999"),
        ("http://[::1", "http://[::1"),
        ("ftp://me:pass@word@a", "ftp://me:xxxxx@a"),
        ("http://me:pass/word@a", "http://me:xxxxx@a"),
        ("ftp://a:80/b@c", "ftp://a:80/b@c"),
    ],
)
def test_an_extender_that_cannot_be_called_is_a_mistake(url: str, shown: str) -> None:
    (mistake,) = mistakes({"extenders": [{"urlPrefix": url, "filterVerb": "f"}]})
    assert mistake.startswith(f'extenders[0].urlPrefix: Invalid value: "{shown}": ')


def test_what_a_process_shows_of_its_configuration_holds_no_secret() -> None:
    config = load_config(
        {
            "extenders": [
                {
                    "urlPrefix": "https://me:pass@word@extender:8888/a@b",
                    "filterVerb": "f",
                    "tlsConfig": {"keyData": "U0VDUkVU", "certData": "Y2VydA=="},
                }
            ]
        }
    )
    shown = str(to_public(config))
    assert "pass" not in shown and "U0VDUkVU" not in shown
    assert "https://me:xxxxx@extender:8888/a@b" in shown
    assert "Y2VydA==" in shown
    assert "pass@word" in str(to_plain(config)), "what is read back stays whole"


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan"])
def test_numbers_that_json_has_no_text_for_are_refused(number: str) -> None:
    (mistake,) = mistakes(f"{HEADER}clientConnection: {{qps: {number}}}\n")
    assert mistake.startswith("clientConnection.qps: ")
    assert mistake.endswith("must be a finite number")


def test_a_text_that_is_too_large_is_refused_before_it_is_read() -> None:
    (mistake,) = mistakes("a: [" * (MAX_BYTES // 4) + " ")
    assert mistake == f'Invalid value: "{MAX_BYTES + 1} bytes": must be at most {MAX_BYTES} bytes'
