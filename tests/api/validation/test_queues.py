"""Rules of ResourceFlavors, queues, cohorts, their priorities and topologies."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.defaulting import default_object
from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.objects import AnyObject
from podsched.api.priorities import PriorityClasses
from podsched.api.validation import validate, validate_status

API = "kueue.x-k8s.io/v1beta2"


def made(kind: str, spec: dict[str, Any], **fields: Any) -> AnyObject:
    metadata = {"name": "q", **({"namespace": "default"} if kind == "LocalQueue" else {})}
    content = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec, **fields}
    message = from_manifest(content).message
    default_object(message, now=1, uid="u", priority_classes=PriorityClasses([]))
    return message


def complaints(item: AnyObject, old: AnyObject | None = None) -> list[str]:
    return [str(error) for error in validate(type(item).__name__, item, old)]


def group(*quotas: dict[str, Any], flavor: str = "a", covered: Any = None) -> dict[str, Any]:
    names = [quota["name"] for quota in quotas]
    flavors = [{"name": flavor, "resources": [*quotas]}]
    return {"coveredResources": names if covered is None else covered, "flavors": flavors}


def cpu(nominal: Any = "1", **limits: Any) -> dict[str, Any]:
    return {"name": "cpu", "nominalQuota": nominal, **limits}


def queue(*groups: dict[str, Any], **spec: Any) -> AnyObject:
    return made("ClusterQueue", {"resourceGroups": [*groups], **spec})


def levels(*labels: str) -> AnyObject:
    return made("Topology", {"levels": [{"nodeLabel": label} for label in labels]})


def test_a_cluster_queue_has_kueues_defaults() -> None:
    spec = to_manifest(queue(fairSharing={}))["spec"]
    assert spec == {
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "Never",
        },
        "stopPolicy": "None",
        "fairSharing": {"weight": "1"},
    }
    assert to_manifest(made("LocalQueue", {"clusterQueue": "q"}))["spec"]["stopPolicy"] == "None"
    assert to_manifest(made("Cohort", {}))["spec"] == {}


GROUPS = "spec.resourceGroups"
QUOTA = f"{GROUPS}[0].flavors[0].resources[0]"


@pytest.mark.parametrize(
    ("groups", "path", "reason"),
    [
        (
            [group(cpu(borrowingLimit="1"))],
            f"{QUOTA}.borrowingLimit",
            "must be nil when cohort is empty",
        ),
        (
            [group(cpu(lendingLimit="1"))],
            f"{QUOTA}.lendingLimit",
            "must be nil when cohort is empty",
        ),
        ([group(cpu("-1"))], f"{QUOTA}.nominalQuota", "must be greater than or equal to 0"),
        ([group({"name": "cpu"})], f"{QUOTA}.nominalQuota", "Required value"),
        ([group(cpu("much"))], f"{QUOTA}.nominalQuota", "quantities must match"),
        (
            [group(cpu(), covered=["memory"])],
            f"{QUOTA}.name",
            "must match the name in coveredResources",
        ),
        (
            [group(cpu(), covered=["cpu", "memory"])],
            f"{GROUPS}[0]",
            "flavors must have the same number of resources as the coveredResources",
        ),
        (
            [group(cpu()), group(cpu(), flavor="b")],
            f"{GROUPS}[1].coveredResources[0]",
            "Duplicate value",
        ),
        (
            [group(cpu()), group({"name": "memory", "nominalQuota": 1})],
            f"{GROUPS}[1].flavors[0].name",
            "Duplicate value",
        ),
        ([{"coveredResources": ["cpu"]}], f"{GROUPS}[0].flavors", "Required value"),
        ([group(cpu(), flavor="A")], f"{GROUPS}[0].flavors[0].name", "RFC 1123 subdomain"),
        ([group(cpu())] * 17, GROUPS, "must have at most 16 items"),
    ],
)
def test_quota_is_checked_as_kueue_does(
    groups: list[dict[str, Any]], path: str, reason: str
) -> None:
    found = complaints(queue(*groups))
    assert any(each.startswith(f"{path}: ") and reason in each for each in found), found


def test_limits_are_permitted_within_a_cohort_and_no_more_than_all_is_lent() -> None:
    limited = group(cpu("2", borrowingLimit="5", lendingLimit="3"))
    why = "must be less than or equal to the nominalQuota"
    assert complaints(queue(limited, cohortName="c")) == [
        f'{QUOTA}.lendingLimit: Invalid value: "3": {why}'
    ]
    assert complaints(made("Cohort", {"parentName": "p", "resourceGroups": [limited]})) == []
    orphan = complaints(made("Cohort", {"resourceGroups": [limited]}))
    assert [each.partition(": ")[2] for each in orphan] == [
        'Invalid value: "5": must be nil when parent is empty',
        'Invalid value: "3": must be nil when parent is empty',
    ]


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
def test_flavors_resources_and_pairs_are_counted(kind: str) -> None:
    names = [f"example.com/r{number}" for number in range(64)]
    quotas = [{"name": name, "nominalQuota": 1} for name in names]
    many = [{"name": f"f{number}", "resources": quotas} for number in range(9)]
    wide = {"coveredResources": names, "flavors": many}
    assert complaints(made(kind, {"resourceGroups": [wide]})) == [
        f"{GROUPS}[0]: Invalid value: 576: number of flavor-resource combinations in a "
        "resourceGroup must be ≤ 512, got 576"
    ]
    tall = [
        {
            "coveredResources": [f"example.com/r{index}"],
            "flavors": [
                {
                    "name": f"f{index}-{number}",
                    "resources": [{"name": f"example.com/r{index}", "nominalQuota": 1}],
                }
                for number in range(60)
            ],
        }
        for index in range(5)
    ]
    assert complaints(made(kind, {"resourceGroups": tall})) == [
        f"{GROUPS}: Invalid value: 300: total number of flavors across all resourceGroups must be "
        "≤ 256, got 300"
    ]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}},
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
        (
            {"flavorFungibility": {"preference": "PreemptionOverBorrowing"}},
            "preference can only be set when both whenCanBorrow and whenCanPreempt are "
            "TryNextFlavor",
        ),
        ({"preemption": {"withinClusterQueue": "Any"}}, 'Unsupported value: "Any"'),
        ({"queueingStrategy": "LIFO"}, 'Unsupported value: "LIFO"'),
        ({"stopPolicy": "Stop"}, 'Unsupported value: "Stop"'),
        ({"fairSharing": {"weight": "-1"}}, "must be greater than or equal to 0"),
        ({"fairSharing": {"weight": "1n"}}, "When not 0, weight must be > 10e-9"),
        ({"admissionScope": {}}, "spec.admissionScope.admissionMode: Required value"),
        ({"cohortName": "A"}, "RFC 1123 subdomain"),
        (
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["x"]}]}},
            'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "x"',
        ),
    ],
)
def test_policies_that_contradict_themselves_are_refused(spec: dict[str, Any], reason: str) -> None:
    (found,) = complaints(queue(group(cpu()), **spec))
    assert reason in found


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("backfill", "Easy", 'Unsupported value: "Easy": supported values: "Conservative", "EASY"'),
        ("default-exec-time-seconds", "0", 'Invalid value: "0": must be a number of seconds'),
        ("longest-exec-time-seconds", "1h", 'Invalid value: "1h": must be a number of seconds'),
    ],
)
def test_an_annotation_about_time_is_checked(name: str, value: str, reason: str) -> None:
    item = queue(group(cpu()))
    item.metadata.annotations[f"podsched.io/{name}"] = value
    (found,) = complaints(item)
    assert found.startswith(f"metadata.annotations[podsched.io/{name}]: {reason}")


def test_backfill_is_refused_in_a_queue_that_nothing_passes() -> None:
    item = queue(group(cpu()), queueingStrategy="StrictFIFO")
    item.metadata.annotations["podsched.io/backfill"] = "EASY"
    (found,) = complaints(item)
    assert 'Invalid value: "EASY": needs spec.queueingStrategy BestEffortFIFO' in found
    item = queue(group(cpu()))
    item.metadata.annotations["podsched.io/backfill"] = "EASY"
    assert complaints(item) == []


def test_all_of_a_cluster_queue_may_change_but_its_policy_for_concurrent_admission() -> None:
    old = queue(group(cpu()), cohortName="c", queueingStrategy="StrictFIFO")
    assert complaints(queue(group(cpu("2"))), old) == []
    (found,) = complaints(queue(concurrentAdmissionPolicy={"migration": {"mode": "x"}}), old)
    assert "spec.concurrentAdmissionPolicy" in found
    assert "field is immutable" in found


def test_a_flavor_with_a_topology_has_labels_and_keeps_the_topology() -> None:
    flavor = made("ResourceFlavor", {"topologyName": "t"})
    (found,) = complaints(flavor)
    assert found.endswith("at least one nodeLabel is required when topology is set")
    labels = {"nodeLabels": {"a": "b"}}
    old = made("ResourceFlavor", {**labels, "topologyName": "t"})
    (found,) = complaints(made("ResourceFlavor", labels), old)
    assert found.endswith("topologyName is immutable when topologyName is set")
    assert complaints(old, made("ResourceFlavor", labels)) == []


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeLabels": {f"l{number}": "v" for number in range(9)}}, "must have at most 8 items"),
        (
            {"nodeTaints": [{"key": "k", "effect": "Never"}]},
            "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
        ),
        (
            {"nodeTaints": [{"key": "k", "effect": "NoSchedule"}] * 2},
            "taints must be unique by key and effect pair",
        ),
        ({"nodeTaints": [{"key": "a b", "effect": "NoSchedule"}]}, "name part must consist"),
        ({"tolerations": [{"operator": "Equal"}]}, "operator must be Exists when `key` is empty"),
        ({"tolerations": [{"key": "k"}] * 9}, "must have at most 8 items"),
    ],
)
def test_labels_taints_and_tolerations_of_flavors_are_checked(
    spec: dict[str, Any], reason: str
) -> None:
    (found,) = complaints(made("ResourceFlavor", spec))
    assert reason in found


def test_a_local_queue_keeps_its_cluster_queue() -> None:
    old, new = made("LocalQueue", {"clusterQueue": "a"}), made("LocalQueue", {"clusterQueue": "b"})
    assert complaints(new, old) == [
        'spec.clusterQueue: Invalid value: "b": field is immutable',
    ]
    assert complaints(made("LocalQueue", {"clusterQueue": "a", "stopPolicy": "Hold"}), old) == []


def test_a_description_has_2048_characters_at_most() -> None:
    metadata = {"name": "p"}
    head = {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": metadata}
    fits = from_manifest({**head, "value": -5, "description": "ü" * 2048}).message
    assert complaints(fits) == []
    long = from_manifest({**head, "description": "u" * 2049}).message
    assert complaints(long) == ["description: Too long: may not be more than 2048 bytes"]


HOST = "kubernetes.io/hostname"


def test_levels_are_unique_and_hostnames_the_lowest() -> None:
    assert complaints(levels("block", "rack", HOST)) == []
    assert "must be unique" in complaints(levels("rack", "rack"))[0]
    (found,) = complaints(levels(HOST, "rack"))
    assert found.endswith(
        "the kubernetes.io/hostname label can only be used at the lowest level of topology"
    )
    assert complaints(levels()) == ["spec.levels: Required value"]
    assert "Too many: 17" in complaints(levels(*map("l{}".format, range(17))))[0]


def test_levels_change_only_above_hostnames() -> None:
    assert complaints(levels("rack", HOST), levels("block", "rack", HOST)) == []
    for new, old in ((levels("rack"), levels("block")), (levels("rack"), levels("rack", HOST))):
        (found,) = complaints(new, old)
        assert "levels are mutable only when kubernetes.io/hostname is the lowest level" in found


def test_a_status_tells_conditions_usage_and_counts() -> None:
    old = queue()
    usage = [{"name": "a", "resources": [{"name": "cpu", "total": "-1"}]}]
    wrong = {
        "pendingWorkloads": -1,
        "flavorsUsage": usage,
        "conditions": [{"type": "Active", "status": "Yes", "reason": "Ready"}],
    }
    new = made("ClusterQueue", {}, status=wrong)
    assert [
        str(error).partition(": ")[0] for error in validate_status("ClusterQueue", new, old)
    ] == [
        "status.conditions[0].status",
        "status.conditions[0].lastTransitionTime",
        "status.pendingWorkloads",
        "status.flavorsUsage[0].resources[0].total",
    ]
