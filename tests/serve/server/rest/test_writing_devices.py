"""DeviceClasses, ResourceClaims, their templates, ResourceSlices and DeviceTaintRules."""

from __future__ import annotations

import re
from typing import Any

import pytest

from podsched.api.manifest import from_manifest, to_manifest
from podsched.cli.printers import TablePrinter
from podsched.serve.server.errors import ApiError
from support.api_world import World
from support.kube_client import TABLE, KubeClient

API = "resource.k8s.io/v1"
CLAIMS = f"/apis/{API}/namespaces/default/resourceclaims"
TEMPLATES = f"/apis/{API}/namespaces/default/resourceclaimtemplates"
SLICES = f"/apis/{API}/resourceslices"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
EVICTING = {"spec": {"taint": {"effect": "NoExecute"}}}
CLASSES = f"/apis/{API}/deviceclasses"
APPLY = {"content-type": "application/apply-patch+yaml"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
POD = {"resource": "pods", "name": "p", "uid": "1"}
ADMIN = {"resource.kubernetes.io/admin-access": "true"}


def made(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(name: str = "c", **exactly: Any) -> dict[str, Any]:
    asked = {"deviceClassName": "gpu.example.com", **exactly}
    return made(
        "ResourceClaim", name, {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}
    )


def pool(name: str, node: str = "node-1", **device: Any) -> dict[str, Any]:
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [{"name": "gpu-0", **device}],
    }
    return made("ResourceSlice", name, spec)


def allocated(**more: Any) -> dict[str, Any]:
    return {"status": {"allocation": {"devices": {"results": [RESULT]}}, **more}}


async def test_a_claim_is_completed_and_has_no_status_yet(world: World, kube: KubeClient) -> None:
    created = await kube.request("POST", CLAIMS, {**claim(), **allocated()})
    assert created.status == 201
    exactly = created.json["spec"]["devices"]["requests"][0]["exactly"]
    assert (exactly["allocationMode"], exactly["count"]) == ("ExactCount", 1)
    assert not created.json.get("status")
    assert "generation" not in created.json["metadata"]
    entry = await world.core.registry.get("ResourceClaim", "default", "c")
    assert to_manifest(entry.message)["spec"] == created.json["spec"]


async def test_quantities_are_written_as_kubernetes_does_and_counted_from_one(
    kube: KubeClient,
) -> None:
    policy = {"default": "1024Mi", "validRange": {"min": "1024Mi", "max": "2048Mi"}}
    choice = {"default": "2000m", "validValues": ["1000m", "2000m"]}
    device = {
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": "H100"}, "index": {"int": 0}, "ok": {"bool": False}},
        "capacity": {
            "memory": {"value": "2048Mi", "requestPolicy": policy},
            "slots": {"value": 2, "requestPolicy": choice},
        },
    }
    created = await kube.request("POST", SLICES, pool("s", **device))
    assert created.status == 201
    assert created.json["metadata"]["generation"] == 1
    assert created.json["spec"]["pool"]["generation"] == 0
    found = created.json["spec"]["devices"][0]
    assert found["attributes"] == device["attributes"]
    assert found["capacity"]["memory"] == {
        "value": "2Gi",
        "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "2Gi"}},
    }
    assert found["capacity"]["slots"] == {
        "value": "2",
        "requestPolicy": {"default": "2", "validValues": ["1", "2"]},
    }


async def test_an_amount_that_is_not_told_is_zero(kube: KubeClient) -> None:
    counters = [{"counterSet": "c", "counters": {"m": {}}}]
    body = pool("s", capacity={"m": {}}, consumesCounters=counters)
    (found,) = (await kube.request("POST", SLICES, body)).json["spec"]["devices"]
    assert found["capacity"] == {"m": {"value": "0"}}
    assert found["consumesCounters"][0]["counters"] == {"m": {"value": "0"}}


async def test_a_taint_has_the_time_at_which_it_was_added(kube: KubeClient) -> None:
    taint = {"key": "example.com/worn", "effect": "NoExecute"}
    created = await kube.request("POST", SLICES, pool("s", taints=[taint]))
    added = created.json["spec"]["devices"][0]["taints"][0]["timeAdded"]
    changed = created.json
    changed["spec"]["devices"][0]["taints"].append({**taint, "effect": "NoSchedule"})
    updated = await kube.request("PUT", f"{SLICES}/s", changed)
    taints = updated.json["spec"]["devices"][0]["taints"]
    assert taints[0]["timeAdded"] == added
    assert taints[1]["timeAdded"] >= added
    assert updated.json["metadata"]["generation"] == 2


async def test_what_gates_hold_back_is_dropped(kube: KubeClient) -> None:
    mappings = {"cpu": {"deviceMultiplier": "1"}}
    device = {
        "attributes": {"a": {"string": "x", "strings": ["y"]}},
        "nodeAllocatableResourceMappings": mappings,
    }
    created = await kube.request("POST", f"{SLICES}?fieldValidation=Strict", pool("s", **device))
    assert created.status == 201
    expected = {"name": "gpu-0", "attributes": {"a": {"string": "x"}}}
    assert created.json["spec"]["devices"] == [expected]


async def test_a_claim_is_allocated_reserved_and_freed_by_its_status(kube: KubeClient) -> None:
    await kube.request("POST", CLAIMS, claim())
    patch = {**allocated(reservedFor=[POD]), "metadata": {"labels": {"a": "b"}}}
    told = await kube.request("PATCH", f"{CLAIMS}/c/status", patch, STRATEGIC)
    assert told.status == 200
    assert told.json["status"] == patch["status"]
    assert "labels" not in told.json["metadata"]
    other = {"status": {"reservedFor": [{**POD, "uid": "2"}]}}
    added = await kube.request("PATCH", f"{CLAIMS}/c/status", other, STRATEGIC)
    assert [each["uid"] for each in added.json["status"]["reservedFor"]] == ["2", "1"]
    whole = added.json
    whole["status"] = {"allocation": {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}}
    refused = await kube.request("PUT", f"{CLAIMS}/c/status", whole)
    assert refused.status == 422
    assert refused.json["message"].endswith("field is immutable")
    whole["status"] = {}
    freed = await kube.request("PUT", f"{CLAIMS}/c/status", whole)
    assert (freed.status, freed.json.get("status") or {}) == (200, {})


async def test_drivers_own_what_they_tell_of_their_devices(kube: KubeClient) -> None:
    await kube.request("POST", CLAIMS, claim())
    await kube.request("PATCH", f"{CLAIMS}/c/status", allocated(), STRATEGIC)
    of = {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    config = {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "status": {"devices": [{**of, "data": {"serial": 7}}]},
    }
    path = f"{CLAIMS}/c/status?fieldManager=driver"
    applied = await kube.request("PATCH", path, config, APPLY)
    assert applied.status == 200
    assert applied.json["status"]["devices"] == [{**of, "data": {"serial": 7}}]
    (managed,) = (m for m in applied.json["metadata"]["managedFields"] if m["manager"] == "driver")
    key = 'k:{"device":"gpu-0","driver":"gpu.example.com","pool":"node-1"}'
    assert key in managed["fieldsV1"]["f:status"]["f:devices"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CLAIMS, claim(adminAccess=True)),
        (TEMPLATES, made("ResourceClaimTemplate", "t", {"spec": claim(adminAccess=True)["spec"]})),
    ],
)
async def test_administrators_have_namespaces_with_a_label(
    kube: KubeClient, path: str, body: dict[str, Any]
) -> None:
    refused = await kube.request("POST", path, body)
    assert refused.status == 422
    assert refused.json["message"].endswith(
        "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    await kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": "ops", "labels": ADMIN}})
    created = await kube.request("POST", path.replace("default", "ops"), body)
    assert created.status == 201


async def test_an_allocation_with_such_access_needs_the_label_as_well(kube: KubeClient) -> None:
    await kube.request("POST", CLAIMS, claim())
    status = {"allocation": {"devices": {"results": [{**RESULT, "adminAccess": True}]}}}
    refused = await kube.request("PATCH", f"{CLAIMS}/c/status", {"status": status}, STRATEGIC)
    assert refused.status == 422
    assert "status.allocation.devices.results[0].adminAccess: Forbidden" in refused.json["message"]


async def test_slices_are_selected_by_node_and_driver(kube: KubeClient) -> None:
    for node in ("node-1", "node-2"):
        await kube.request("POST", SLICES, pool(f"s-{node}", node))

    async def names(selector: str) -> list[str]:
        found = await kube.get(f"{SLICES}?fieldSelector={selector}")
        return [item["metadata"]["name"] for item in found.json["items"]]

    assert await names("spec.nodeName=node-2") == ["s-node-2"]
    assert await names("spec.driver=gpu.example.com,spec.nodeName!=node-2") == ["s-node-1"]
    assert await names("spec.driver=other.example.com") == []


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "pending"),
        (allocated()["status"], "allocated"),
        (allocated(reservedFor=[POD])["status"], "allocated,reserved"),
    ],
)
async def test_tables_tell_the_state_of_claims(
    world: World, kube: KubeClient, status: dict[str, Any], state: str
) -> None:
    await kube.request("POST", CLAIMS, claim())
    await kube.request("PATCH", f"{CLAIMS}/c/status", {"status": status}, STRATEGIC)
    table = (await kube.get(CLAIMS, TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
    assert table["rows"][0]["cells"][:2] == ["c", state]
    entry = await world.core.registry.get("ResourceClaim", "default", "c")
    lines = TablePrinter(entry.kind, namespaces=False, wide=False).lines([entry.message], 0)
    assert [line.split()[:2] for line in lines] == [["NAME", "STATE"], ["c", state]]


async def test_a_deleted_claim_that_is_held_says_so(kube: KubeClient) -> None:
    held = claim()
    held["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    await kube.request("POST", CLAIMS, held)
    await kube.request("PATCH", f"{CLAIMS}/c/status", allocated(), STRATEGIC)
    await kube.request("DELETE", f"{CLAIMS}/c")
    assert (await kube.get(CLAIMS, TABLE)).json["rows"][0]["cells"][1] == "deleted,allocated"


async def test_tables_tell_the_pool_of_slices(kube: KubeClient) -> None:
    await kube.request("POST", SLICES, pool("s"))
    table = (await kube.get(SLICES, TABLE)).json
    named = [column["name"] for column in table["columnDefinitions"]]
    assert named == ["Name", "Node", "Driver", "Pool", "Age"]
    assert table["rows"][0]["cells"][:4] == ["s", "node-1", "gpu.example.com", "node-1"]


async def test_they_are_found_by_discovery(kube: KubeClient) -> None:
    listed = (await kube.get(f"/apis/{API}")).json["resources"]
    assert {each["name"]: each["namespaced"] for each in listed} == {
        "deviceclasses": False,
        "resourceclaims": True,
        "resourceclaims/status": True,
        "resourceclaimtemplates": True,
        "resourceslices": False,
    }


async def test_the_time_of_a_rules_taint_is_that_of_its_effect(kube: KubeClient) -> None:
    spec = {
        "deviceSelector": {"driver": "gpu.example.com"},
        "taint": {
            "key": "example.com/worn",
            "effect": "None",
            "timeAdded": "2020-02-01T10:00:00Z",
        },
    }
    rule = {**made("DeviceTaintRule", "r", spec), "apiVersion": "resource.k8s.io/v1beta2"}
    created = await kube.request("POST", RULES, rule)
    assert (created.status, created.json["spec"]) == (201, spec)
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"taint": {"value": "1"}}}
    labelled = await kube.request("PATCH", f"{RULES}/r", patch, STRATEGIC)
    assert labelled.json["spec"]["taint"]["timeAdded"] == "2020-02-01T10:00:00Z"
    changed = await kube.request("PATCH", f"{RULES}/r", EVICTING, STRATEGIC)
    assert changed.json["spec"]["taint"]["timeAdded"] > "2020-02-01T10:00:00Z"
    assert changed.json["metadata"]["generation"] == 3
    wrong = {"status": {"conditions": [{"type": "Evicting", "status": "Maybe"}]}}
    refused = await kube.request("PATCH", f"{RULES}/r/status", wrong, STRATEGIC)
    assert 'status.conditions[0].status: Unsupported value: "Maybe"' in refused.json["message"]


async def test_a_rule_has_an_effect_that_there_is_for_devices(kube: KubeClient) -> None:
    spec = {"deviceSelector": {"pool": "!"}, "taint": {"key": "a", "effect": "PreferNoSchedule"}}
    rule = {**made("DeviceTaintRule", "r", spec), "apiVersion": "resource.k8s.io/v1beta2"}
    refused = await kube.request("POST", RULES, rule)
    assert refused.status == 422
    assert 'spec.deviceSelector.pool: Invalid value: "!"' in refused.json["message"]
    assert (
        'spec.taint.effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", '
        '"NoSchedule", "None"' in refused.json["message"]
    )


async def test_a_mistake_is_told_as_a_real_api_server_does(kube: KubeClient) -> None:
    refused = await kube.request("POST", CLASSES, made("DeviceClass", "d", {"selectors": [{}]}))
    assert (refused.status, refused.json["message"]) == (
        422,
        'DeviceClass.resource.k8s.io "d" is invalid: spec.selectors[0].cel: Required value',
    )


async def test_a_quantity_that_is_none_is_refused_by_both_faces(
    world: World, kube: KubeClient
) -> None:
    body = pool("s", capacity={"memory": {"value": "9" * 5000}})
    assert (await kube.request("POST", SLICES, body)).status == 400
    with pytest.raises(ApiError, match="quantities must match the regular expression"):
        await world.core.creator.create(from_manifest(body).message)


async def test_claims_of_a_pod_that_is_mistaken_are_refused_by_both_faces(
    world: World, kube: KubeClient
) -> None:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "b"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "a"}]}
    pod = {**made("Pod", "x", spec), "apiVersion": "v1"}
    pod["metadata"]["namespace"] = "default"
    refused = await kube.request("POST", "/api/v1/namespaces/default/pods", pod)
    told = (
        'Pod "x" is invalid: [spec.resourceClaims[0]: Invalid value: {"Name":"a",'
        '"ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: '
        "`resourceClaimName`, `resourceClaimTemplateName`, "
        'spec.containers[0].resources.claims[0]: Not found: "b": '
        "must be one of the names in pod.spec.resourceClaims: a]"
    )
    assert (refused.status, refused.json["message"]) == (422, told)
    with pytest.raises(ApiError, match=re.escape(told)):
        await world.core.creator.create(from_manifest(pod).message)
