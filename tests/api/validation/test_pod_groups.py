"""Rules of Workloads and PodGroups, in the words of a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.objects import AnyObject
from podsched.api.validation import validate, validate_status

API = "scheduling.k8s.io/v1alpha2"
GANG = {"gang": {"minCount": 2}}
LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"


def made(kind: str, spec: dict[str, Any], **fields: Any) -> AnyObject:
    metadata = {"name": "g", "namespace": "default"}
    head = {"apiVersion": API, "kind": kind, "metadata": metadata}
    return from_manifest({**head, "spec": spec, **fields}).message


def workload(*templates: dict[str, Any], **spec: Any) -> AnyObject:
    return made("Workload", {"podGroupTemplates": [*templates], **spec})


def group(**spec: Any) -> AnyObject:
    return made("PodGroup", {"schedulingPolicy": GANG, **spec})


def template(name: str = "t", **fields: Any) -> dict[str, Any]:
    return {"name": name, "schedulingPolicy": GANG, **fields}


def complaints(item: AnyObject, old: AnyObject | None = None) -> list[str]:
    kind = type(item).__name__
    return [str(error) for error in validate(kind, item, old)]


def test_manifests_are_read_and_printed_back() -> None:
    spec = {
        "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        "schedulingPolicy": {"basic": {}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        "disruptionMode": "PodGroup",
        "priorityClassName": "high",
        "priority": 0,
    }
    item = made("PodGroup", spec)
    assert complaints(item) == []
    assert to_manifest(item)["spec"] == spec
    reference = {"apiGroup": "batch", "kind": "Job", "name": "j"}
    whole = {"controllerRef": reference, "podGroupTemplates": [template()]}
    assert to_manifest(made("Workload", whole))["spec"] == whole
    assert complaints(made("Workload", whole)) == []


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        ({"basic": {}}, ""),
        ({"gang": {"minCount": 1}}, ""),
        ({}, 'Invalid value: "": must specify one of: `basic`, `gang`'),
        (
            {"basic": {}, "gang": {"minCount": 1}},
            'Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        ),
    ],
)
def test_a_policy_is_one_of_basic_and_gang(policy: dict[str, Any], wrong: str) -> None:
    expected = [f"spec.schedulingPolicy: {wrong}"] if wrong else []
    assert complaints(group(schedulingPolicy=policy)) == expected
    expected = [f"spec.podGroupTemplates[0].schedulingPolicy: {wrong}"] if wrong else []
    assert complaints(workload(template(schedulingPolicy=policy))) == expected


@pytest.mark.parametrize(
    ("gang", "wrong"),
    [
        ({}, "Required value"),
        ({"minCount": 0}, "Required value"),
        ({"minCount": -2}, "Invalid value: -2: must be greater than or equal to 1"),
    ],
)
def test_a_gang_has_a_count(gang: dict[str, Any], wrong: str) -> None:
    found = complaints(group(schedulingPolicy={"gang": gang}))
    assert found == [f"spec.schedulingPolicy.gang.minCount: {wrong}"]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"podGroupTemplateRef": {}}, 'Ref: Invalid value: "": must specify one of: `workload`'),
        (
            {"podGroupTemplateRef": {"workload": {"podGroupTemplateName": "t"}}},
            "Ref.workload.workloadName: Required value",
        ),
        (
            {"podGroupTemplateRef": {"workload": {"workloadName": "w"}}},
            "Ref.workload.podGroupTemplateName: Required value",
        ),
        (
            {
                "podGroupTemplateRef": {
                    "workload": {"workloadName": "w", "podGroupTemplateName": "a.b"}
                }
            },
            'Name: Invalid value: "a.b": must not contain dots',
        ),
        (
            {"schedulingConstraints": {"topology": [{}]}},
            "topology[0].key: Required value",
        ),
        (
            {"schedulingConstraints": {"topology": [{"key": "a b"}]}},
            'topology[0].key: Invalid value: "a b": name part must consist of',
        ),
        (
            {"disruptionMode": "All"},
            'Mode: Unsupported value: "All": supported values: "Pod", "PodGroup"',
        ),
        ({"priorityClassName": "A"}, 'Name: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        (
            {"priority": 2_000_000_000},
            "priority: Invalid value: 2000000000: must be less than or equal to 1000000000",
        ),
    ],
)
def test_a_mistake_is_told_with_its_path(spec: dict[str, Any], wrong: str) -> None:
    (found,) = complaints(group(**spec))
    assert wrong in found


def test_one_constraint_is_the_most() -> None:
    topology = [{"key": "a"}, {"key": "b"}]
    assert complaints(group(schedulingConstraints={"topology": topology})) == [
        "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"
    ]


def test_a_workload_has_templates() -> None:
    assert complaints(workload()) == ["spec.podGroupTemplates: Required value"]
    nine = workload(*(template(name) for name in "abcdefghi"))
    assert complaints(nine) == ["spec.podGroupTemplates: Too many: 9: must have at most 8 items"]


def test_templates_have_names_of_their_own() -> None:
    (found,) = complaints(workload(template("a"), template("a")))
    assert found.startswith('spec.podGroupTemplates[1]: Duplicate value: {"name":"a"')
    (found,) = complaints(workload(template("A.b")))
    assert f'spec.podGroupTemplates[0].name: Invalid value: "A.b": {LABEL}' in found
    (found,) = complaints(workload(template("")))
    assert found == "spec.podGroupTemplates[0].name: Required value"


def test_the_controller_of_a_workload_is_told_whole() -> None:
    assert complaints(workload(template(), controllerRef={"apiGroup": "A", "name": "a/b"})) == [
        'spec.controllerRef.apiGroup: Invalid value: "A": a lowercase RFC 1123 subdomain must '
        "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        "spec.controllerRef.kind: Required value",
        "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'",
    ]


def test_templates_stay() -> None:
    old = workload(template())
    immutable = "spec.podGroupTemplates: Invalid value: null: field is immutable"
    assert complaints(workload(template()), old) == []
    assert complaints(workload(template(), template("u")), old) == [immutable]
    changed = workload(template(schedulingPolicy={"gang": {"minCount": 3}}))
    assert complaints(changed, old) == [immutable]


def test_the_controller_of_a_workload_stays_once_it_is_told() -> None:
    job, other = ({"kind": "Job", "name": name} for name in "ab")
    assert complaints(workload(template(), controllerRef=job), workload(template())) == []
    old = workload(template(), controllerRef=job)
    immutable = ["spec.controllerRef: Invalid value: null: field is immutable"]
    assert complaints(workload(template(), controllerRef=other), old) == immutable
    assert complaints(workload(template()), old) == immutable


@pytest.mark.parametrize(
    "changed",
    [
        {"schedulingPolicy": {"basic": {}}},
        {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}},
        {"schedulingConstraints": {"topology": [{"key": "zone"}]}},
        {"disruptionMode": "PodGroup"},
        {"priorityClassName": "high"},
        {"priority": 0},
    ],
)
def test_the_spec_of_a_pod_group_stays(changed: dict[str, Any]) -> None:
    (name,) = changed
    assert complaints(group(**changed), group(**changed)) == []
    expected = [f"spec.{name}: Invalid value: null: field is immutable"]
    assert complaints(group(**changed), group()) == expected
    assert complaints(group(), group(**changed)) == expected


def test_a_status_has_each_condition_once_and_no_claims() -> None:
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled"}
    claims = [{"name": "c"}]
    wrong = [condition, {**condition, "status": "Yes"}, {"reason": "r"}]
    status = {"conditions": wrong, "resourceClaimStatuses": claims}
    old = group()
    found = [
        str(error).split(": {")[0]
        for error in validate_status("PodGroup", made("PodGroup", {}, status=status), old)
    ]
    assert found == [
        "status.conditions[1]: Duplicate value",
        'status.conditions[1].status: Unsupported value: "Yes": supported values: '
        '"False", "True", "Unknown"',
        "status.conditions[2].type: Required value",
        "status.conditions[2].status: Required value",
        'status.resourceClaimStatuses[0].name: Invalid value: "c": must match the name of an entry '
        "in `spec.resourceClaims`",
    ]


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (
            {"conditions": [{"type": f"T{number}", "status": "True"} for number in range(101)]},
            "status.conditions: Too many: 101: must have at most 100 items",
        ),
        (
            {"resourceClaimStatuses": [{"name": f"c{number}"} for number in range(5)]},
            "status.resourceClaimStatuses: Too many: 5: must have at most 4 items",
        ),
    ],
)
def test_the_lists_of_a_status_are_bounded(status: dict[str, Any], wrong: str) -> None:
    found = validate_status("PodGroup", made("PodGroup", {}, status=status), group())
    assert [str(error) for error in found] == [wrong]


@pytest.mark.parametrize(
    ("claims", "wrong"),
    [
        (
            [
                {"name": "c", "resourceClaimName": "a"},
                {"name": "d", "resourceClaimTemplateName": "t"},
            ],
            [],
        ),
        (
            [{"name": "c"}],
            [
                '[0]: Invalid value: "": must specify one of: `resourceClaimName`, '
                "`resourceClaimTemplateName`"
            ],
        ),
        (
            [{"name": "c", "resourceClaimName": "a", "resourceClaimTemplateName": "t"}],
            [
                '[0]: Invalid value: "{resourceClaimName, resourceClaimTemplateName}": must '
                "specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            ],
        ),
        ([{"resourceClaimName": "a"}], ["[0].name: Required value"]),
        (
            [{"name": f"c{number}", "resourceClaimName": "a"} for number in range(5)],
            [": Too many: 5: must have at most 4 items"],
        ),
    ],
)
def test_claims_of_groups_and_templates_have_a_name_and_one_source(
    claims: list[dict[str, Any]], wrong: list[str]
) -> None:
    expected = [f"spec.resourceClaims{text}" for text in wrong]
    assert complaints(group(resourceClaims=claims)) == expected
    expected = [f"spec.podGroupTemplates[0].resourceClaims{text}" for text in wrong]
    assert complaints(workload(template(resourceClaims=claims))) == expected


def test_names_of_claims_are_checked_and_differ() -> None:
    wrong = [{"name": "C", "resourceClaimName": "A"}, {"name": "C", "resourceClaimName": "a"}]
    found = [error.split(": ")[:2] for error in complaints(group(resourceClaims=wrong))]
    assert found == [
        ["spec.resourceClaims[0].name", "Invalid value"],
        ["spec.resourceClaims[0].resourceClaimName", "Invalid value"],
        ["spec.resourceClaims[1]", "Duplicate value"],
        ["spec.resourceClaims[1].name", "Invalid value"],
    ]


def test_a_status_tells_the_generated_claims_of_the_group() -> None:
    old = group(resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])

    def found(*claims: dict[str, str]) -> list[str]:
        spec = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
        new = made("PodGroup", spec, status={"resourceClaimStatuses": [*claims]})
        return [str(error).split(": ")[0] for error in validate_status("PodGroup", new, old)]

    assert found({"name": "c", "resourceClaimName": "g-c-abcde"}) == []
    assert found({"name": "c"}, {"name": "d", "resourceClaimName": "No"}) == [
        "status.resourceClaimStatuses[1].name",
        "status.resourceClaimStatuses[1].resourceClaimName",
    ]
