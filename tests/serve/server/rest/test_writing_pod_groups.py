"""Workloads and PodGroups, by both faces."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.pod_groups import PROTECTION_FINALIZER
from podsched.cli.printers import TablePrinter
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World, pod_of
from support.kube_client import TABLE, KubeClient

API = "scheduling.k8s.io/v1alpha2"
GROUPS = f"/apis/{API}/namespaces/default/podgroups"
WORKLOADS = f"/apis/{API}/namespaces/default/workloads"
GANG = {"gang": {"minCount": 2}}
MERGE_PATCH = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
FROM_TEMPLATE = {
    "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
}


def group(name: str = "g", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name}}
    return {**head, "spec": {"schedulingPolicy": GANG, **spec}}


def workload(*names: str, **metadata: Any) -> dict[str, Any]:
    templates = [{"name": name, "schedulingPolicy": GANG} for name in names]
    head = {"apiVersion": API, "kind": "Workload", "metadata": {"name": "w", **metadata}}
    return {**head, "spec": {"podGroupTemplates": templates}}


def condition(status: str, reason: str, type_: str = "PodGroupScheduled") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": ""}


async def refusal(kube: KubeClient, path: str, body: dict[str, Any]) -> tuple[int, str]:
    answer = await kube.request("POST", path, body)
    return answer.status, answer.json["message"]


async def test_what_rest_stores_is_what_grpc_reads(world: World, kube: KubeClient) -> None:
    """Completed: protected, of the mode Pod, with a priority, without generation and status."""
    made = group(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    made["status"] = {"conditions": [condition("True", "Scheduled")]}
    created = await kube.request("POST", GROUPS, made)
    assert created.status == 201
    spec = {"schedulingPolicy": GANG, "disruptionMode": "Pod", "priority": 0}
    assert created.json["spec"] == spec
    assert created.json["metadata"]["finalizers"] == [PROTECTION_FINALIZER]
    assert "generation" not in created.json["metadata"]
    assert not created.json.get("status")
    entry = await world.core.registry.get("PodGroup", "default", "g")
    assert to_manifest(entry.message)["spec"] == spec


async def test_a_mistake_is_told_as_a_real_api_server_does(kube: KubeClient) -> None:
    both = group(schedulingPolicy={"basic": {}, **GANG})
    assert await refusal(kube, GROUPS, both) == (
        422,
        'PodGroup.scheduling.k8s.io "g" is invalid: spec.schedulingPolicy: Invalid value: '
        '"{basic, gang}": must specify exactly one of: `basic`, `gang`',
    )
    assert await refusal(kube, WORKLOADS, workload()) == (
        422,
        'Workload.scheduling.k8s.io "w" is invalid: spec.podGroupTemplates: Required value',
    )


async def test_the_spec_of_a_group_stays_and_its_labels_change(kube: KubeClient) -> None:
    await kube.request("POST", GROUPS, group())
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    refused = await kube.request("PATCH", f"{GROUPS}/g", patch, MERGE_PATCH)
    assert (refused.status, refused.json["message"]) == (
        422,
        'PodGroup.scheduling.k8s.io "g" is invalid: '
        "spec.schedulingPolicy: Invalid value: null: field is immutable",
    )
    patch = {"metadata": {"labels": {"a": "b"}}}
    labelled = await kube.request("PATCH", f"{GROUPS}/g", patch, MERGE_PATCH)
    assert (labelled.status, labelled.json["metadata"]["labels"]) == (200, {"a": "b"})


async def test_its_finalizer_is_not_added_again(kube: KubeClient) -> None:
    await kube.request("POST", GROUPS, group())
    patch = {"metadata": {"finalizers": None}}
    patched = await kube.request("PATCH", f"{GROUPS}/g", patch, MERGE_PATCH)
    assert "finalizers" not in patched.json["metadata"]


async def test_an_update_of_the_status_changes_nothing_else(world: World, kube: KubeClient) -> None:
    await kube.request("POST", GROUPS, group())
    patch = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"schedulingPolicy": {"basic": {}}},
        "status": {"conditions": [condition("False", "Unschedulable")]},
    }
    told = await kube.request("PATCH", f"{GROUPS}/g/status", patch, STRATEGIC)
    assert told.status == 200
    assert told.json["spec"]["schedulingPolicy"] == GANG
    assert "labels" not in told.json["metadata"]
    assert told.json["status"]["conditions"][0]["reason"] == "Unschedulable"
    kept = await kube.request("PATCH", f"{GROUPS}/g", {"status": None}, MERGE_PATCH)
    assert kept.json["status"] == told.json["status"]


async def test_a_group_is_of_a_template_that_there_is(world: World, kube: KubeClient) -> None:
    """The Workload is in its namespace, is not being deleted, and has the template."""
    made = group(**FROM_TEMPLATE)
    said = 'podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: '
    missing = (403, f'{said}Workload "w" not found')
    assert await refusal(kube, GROUPS, made) == missing
    other = WORKLOADS.replace("default", "other")
    await kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    assert (await kube.request("POST", other, workload("t"))).status == 201
    assert await refusal(kube, GROUPS, made) == missing
    held = workload("s", finalizers=["example.com/hold"])
    await kube.request("POST", WORKLOADS, held)
    no_template = (403, f'{said}PodGroupTemplate "t" not found in Workload "w"')
    assert await refusal(kube, GROUPS, made) == no_template
    await kube.request("DELETE", f"{WORKLOADS}/w")
    await world.core.reflector.wait_until_fresh()
    assert await refusal(kube, GROUPS, made) == (403, f'{said}Workload "w" is being deleted')


async def test_a_workload_made_at_another_server_a_moment_ago_is_known(world: World) -> None:
    made = from_manifest(workload("t")).message
    await (await world.another()).creator.create(made)
    await world.core.creator.create(from_manifest(group(**FROM_TEMPLATE)).message)


async def test_claims_of_groups_are_dropped(kube: KubeClient) -> None:
    made = workload("t")
    made["spec"]["podGroupTemplates"][0]["resourceClaims"] = [{"name": "c"}]
    created = await kube.request("POST", WORKLOADS, made)
    assert created.json["spec"]["podGroupTemplates"] == [{"name": "t", "schedulingPolicy": GANG}]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 7},
            "priority set in the pod group (7) must match the priority computed (0) based on the "
            "priority class set in the spec",
        ),
    ],
)
async def test_a_priority_of_its_own_is_forbidden(
    kube: KubeClient, spec: dict[str, Any], wrong: str
) -> None:
    expected = (403, f'podgroups.scheduling.k8s.io "g" is forbidden: {wrong}')
    assert await refusal(kube, GROUPS, group(**spec)) == expected


async def test_the_classes_of_the_system_are_not_for_groups(kube: KubeClient) -> None:
    made = group(priorityClassName="system-node-critical")
    assert await refusal(kube, GROUPS, made) == (
        422,
        'PodGroup.scheduling.k8s.io "g" is invalid: spec.priority: Invalid value: 2000001000: must '
        "be less than or equal to 1000000000",
    )


@pytest.mark.parametrize(
    ("name", "spec", "conditions", "shown"),
    [
        ("new", {}, [], ["Gang", "<none>", "Pending"]),
        ("basic", {"schedulingPolicy": {"basic": {}}}, [], ["Basic", "<none>", "Pending"]),
        ("made", FROM_TEMPLATE, [], ["Gang", "w", "Pending"]),
        ("placed", {}, [condition("True", "Scheduled")], ["Gang", "<none>", "Scheduled"]),
        ("waits", {}, [condition("False", "Unschedulable")], ["Gang", "<none>", "Unschedulable"]),
        (
            "evicted",
            {},
            [
                condition("True", "Scheduled"),
                condition("True", "PreemptionByScheduler", "DisruptionTarget"),
            ],
            ["Gang", "<none>", "PreemptionByScheduler"],
        ),
        (
            "stays",
            {},
            [condition("True", "Scheduled"), condition("False", "None", "DisruptionTarget")],
            ["Gang", "<none>", "Scheduled"],
        ),
    ],
)
async def test_tables_tell_policy_workload_and_status(
    world: World,
    kube: KubeClient,
    name: str,
    spec: dict[str, Any],
    conditions: list[dict[str, Any]],
    shown: list[str],
) -> None:
    await kube.request("POST", WORKLOADS, workload("t"))
    await kube.request("POST", GROUPS, group(name, **spec))
    status = {"status": {"conditions": conditions}}
    await kube.request("PATCH", f"{GROUPS}/{name}/status", status, MERGE_PATCH)
    table = (await kube.get(GROUPS, TABLE)).json
    named = [column["name"] for column in table["columnDefinitions"]]
    assert named == ["Name", "Policy", "Workload", "Status", "Age"]
    assert table["rows"][0]["cells"][:4] == [name, *shown]
    entry = await world.core.registry.get("PodGroup", "default", name)
    lines = [*TablePrinter(entry.kind, namespaces=False, wide=False).lines([entry.message], 0)]
    assert [line.split()[:4] for line in lines] == [
        ["NAME", "POLICY", "WORKLOAD", "STATUS"],
        [name, *shown],
    ]


async def test_they_are_found_by_discovery(kube: KubeClient) -> None:
    listed = (await kube.get(f"/apis/{API}")).json["resources"]
    kinds = {each["name"]: (each["kind"], each["namespaced"]) for each in listed}
    assert kinds == {
        "workloads": ("Workload", True),
        "podgroups": ("PodGroup", True),
        "podgroups/status": ("PodGroup", True),
    }
    groups = (await kube.get("/apis")).json["groups"]
    scheduling = next(each for each in groups if each["name"] == "scheduling.k8s.io")
    assert scheduling["preferredVersion"]["version"] == "v1"
    assert [each["version"] for each in scheduling["versions"]] == ["v1", "v1alpha2"]


async def test_a_pod_names_its_group_for_good(world: World) -> None:
    item = pod()
    item.spec.scheduling_group.pod_group_name = "g"
    stored = pod_of(await world.core.creator.create(item))
    patch = v1.PatchRequest(kind="Pod", namespace="default", name=stored.metadata.name)
    for change in (b'{"podGroupName":"h"}', b"null"):
        patch.merge_patch = b'{"spec":{"schedulingGroup":%s}}' % change
        (refused,) = await world.core.registry.patch([patch], None)
        assert isinstance(refused, ApiError)
        assert "pod updates may not change fields other than" in refused.message


@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ({}, "Invalid value: null: must specify one of: `podGroupName`"),
        ({"podGroupName": ""}, 'Invalid value: "": a lowercase RFC 1123 subdomain'),
        ({"podGroupName": "A"}, 'Invalid value: "A": a lowercase RFC 1123 subdomain'),
    ],
)
async def test_a_pod_names_a_group(world: World, named: dict[str, Any], wrong: str) -> None:
    manifest = {**to_manifest(pod()), "apiVersion": "v1", "kind": "Pod"}
    manifest["spec"]["schedulingGroup"] = named
    with pytest.raises(ApiError) as refused:
        await world.core.creator.create(from_manifest(manifest).message)
    assert f"spec.schedulingGroup.podGroupName: {wrong}" in refused.value.message


async def test_a_manager_that_applies_templates_owns_each_by_its_name(kube: KubeClient) -> None:
    apply = {"content-type": "application/apply-patch+yaml"}
    path = f"{WORKLOADS}/w?fieldManager=a"
    applied = await kube.request("PATCH", path, workload("t", "u"), apply)
    (managed,) = applied.json["metadata"]["managedFields"]
    owned = managed["fieldsV1"]["f:spec"]["f:podGroupTemplates"]
    assert set(owned) == {'k:{"name":"t"}', 'k:{"name":"u"}'}


async def test_a_server_keeps_the_claims_of_groups_if_it_is_told_to(world: World) -> None:
    core = await world.another(ServerSettings(pod_group_claims=True))
    claims = [{"name": "c", "resourceClaimName": "c"}]
    entry = await core.creator.create(from_manifest(group(resourceClaims=claims)).message)
    assert to_manifest(entry.message)["spec"]["resourceClaims"] == claims
    # They stay where another server, which drops them, writes the group.
    await world.core.reflector.wait_until_fresh()
    changed = to_manifest(entry.message)
    changed["metadata"]["labels"] = {"a": "b"}
    updated = await world.core.registry.update(from_manifest(changed).message)
    assert to_manifest(updated.message)["spec"]["resourceClaims"] == claims
