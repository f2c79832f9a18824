"""The kinds of queues by Kubernetes' REST API."""

from __future__ import annotations

from typing import Any

from support.kube_client import TABLE, KubeClient

API = "kueue.x-k8s.io/v1beta2"
QUEUES = f"/apis/{API}/clusterqueues"
APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
QUOTA = {"name": "cpu", "nominalQuota": "2000m"}
GROUP = {"coveredResources": ["cpu"], "flavors": [{"name": "a", "resources": [QUOTA]}]}
QUEUE: dict[str, Any] = {
    "apiVersion": API,
    "kind": "ClusterQueue",
    "metadata": {"name": "q"},
    "spec": {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": [GROUP]},
}


async def test_queues_are_found_by_discovery(kube: KubeClient) -> None:
    served = (await kube.request("GET", f"/apis/{API}")).json["resources"]
    names = {each["name"]: each.get("shortNames") for each in served if "/" not in each["name"]}
    assert names == {
        "resourceflavors": ["flavor", "flavors", "rf"],
        "clusterqueues": ["cq"],
        "localqueues": ["queue", "queues", "lq"],
        "cohorts": ["co"],
        "workloadpriorityclasses": ["wpc"],
        "topologies": ["topo"],
    }
    statuses = {each["name"] for each in served if each["name"].endswith("/status")}
    assert statuses == {"clusterqueues/status", "localqueues/status", "cohorts/status"}


async def test_a_queue_is_applied_shown_and_deleted_at_once(kube: KubeClient) -> None:
    applied = await kube.request("PATCH", f"{QUEUES}/q?fieldManager=me", QUEUE, APPLY)
    assert applied.status == 201, applied.json
    spec = applied.json["spec"]
    assert spec["namespaceSelector"] == {}
    assert spec["stopPolicy"] == "None"
    assert spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] == "2"
    assert applied.json["metadata"].get("finalizers") is None
    table = (await kube.request("GET", QUEUES, headers={"accept": TABLE})).json
    shown = [c["name"] for c in table["columnDefinitions"] if not c["priority"]]
    assert shown == ["Name", "Cohort", "Pending Workloads"]
    assert table["rows"][0]["cells"] == ["q", "all", "BestEffortFIFO", 0, 0]
    deleted = await kube.request("DELETE", f"{QUEUES}/q")
    assert (deleted.status, deleted.json["status"]) == (200, "Success")


async def test_the_status_is_written_apart_from_the_spec(kube: KubeClient) -> None:
    await kube.request("POST", QUEUES, QUEUE)
    patch = {"spec": {"cohortName": "other"}, "status": {"pendingWorkloads": 3}}
    written = await kube.request("PATCH", f"{QUEUES}/q/status", patch, MERGE)
    assert written.json["spec"]["cohortName"] == "all"
    assert written.json["status"]["pendingWorkloads"] == 3
    assert written.json["metadata"]["generation"] == 1
    changed = await kube.request("PATCH", f"{QUEUES}/q", patch, MERGE)
    assert changed.json["status"]["pendingWorkloads"] == 3
    assert changed.json["metadata"]["generation"] == 2


FORMER = "kueue.x-k8s.io/v1beta1"


async def test_a_cluster_queue_of_v1beta1_is_stored_as_one_of_v1beta2(kube: KubeClient) -> None:
    fungibility = {"whenCanBorrow": "Borrow"}
    spec = {**QUEUE["spec"], "cohort": "all", "flavorFungibility": fungibility}
    del spec["cohortName"]
    content = {**QUEUE, "apiVersion": FORMER, "spec": spec}
    created = await kube.request("POST", f"/apis/{FORMER}/clusterqueues", content)
    assert created.status == 201, created.json
    assert created.json["apiVersion"] == FORMER
    assert created.json["spec"]["cohort"] == "all"
    stored = (await kube.request("GET", f"{QUEUES}/q")).json
    assert stored["apiVersion"] == API
    assert stored["spec"]["cohortName"] == "all"
    assert stored["spec"]["flavorFungibility"]["whenCanBorrow"] == "MayStopSearch"
    assert "cohort" not in stored["spec"]


async def test_a_cluster_queue_of_v1beta1_may_be_written_as_yaml(kube: KubeClient) -> None:
    body = f"apiVersion: {FORMER}\nkind: ClusterQueue\nmetadata:\n  name: q\nspec:\n  cohort: all\n"
    headers = {"content-type": "application/yaml"}
    path = f"/apis/{FORMER}/clusterqueues"
    created = await kube.request("POST", path, body.encode(), headers)
    assert created.status == 201, created.json
    assert created.json["spec"]["cohort"] == "all"


async def test_a_patch_of_v1beta1_has_the_names_of_v1beta1(kube: KubeClient) -> None:
    await kube.request("POST", QUEUES, QUEUE)
    change = {"spec": {"cohort": "other"}}
    patched = await kube.request("PATCH", f"/apis/{FORMER}/clusterqueues/q", change, MERGE)
    assert patched.json["spec"]["cohort"] == "other", patched.json
    stored = (await kube.request("GET", f"{QUEUES}/q")).json
    assert stored["spec"]["cohortName"] == "other"


async def test_clients_prefer_the_version_of_queues_that_is_stored(kube: KubeClient) -> None:
    group = (await kube.request("GET", "/apis/kueue.x-k8s.io")).json
    assert group["preferredVersion"]["version"] == "v1beta2"
    assert [each["version"] for each in group["versions"]] == ["v1beta2", "v1beta1"]
