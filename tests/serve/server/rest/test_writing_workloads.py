"""Workloads and Secrets, as kubectl and the controllers of Kubernetes write them."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest, to_manifest
from support.api_world import World
from support.kube_client import KubeClient

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
SECRETS = "/api/v1/namespaces/default/secrets"
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}
ONCE = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}


def deployment(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, **spec}
    return {**head, "spec": whole}


def job(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "count"}}
    return {**head, "spec": {"template": ONCE, **spec}}


def cron_job(schedule: str, **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    inner = {"spec": {"template": ONCE}}
    return {**head, "spec": {"schedule": schedule, "jobTemplate": inner, **spec}}


async def test_a_deployment_has_the_defaults_that_its_controller_reads(kube: KubeClient) -> None:
    created = await kube.request("POST", DEPLOYMENTS, deployment())
    assert created.status == 201
    spec = created.json["spec"]
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


async def test_a_template_has_the_same_defaults_through_grpc(
    world: World, kube: KubeClient
) -> None:
    created = (await kube.request("POST", DEPLOYMENTS, deployment())).json
    again = deployment()
    again["metadata"] = {"name": "other", "namespace": "default"}
    entry = await world.core.creator.create(from_manifest(again).message)
    assert to_manifest(entry.message)["spec"] == created["spec"]


async def test_a_template_leaves_what_follows_from_limits_and_ports_to_its_pods(
    kube: KubeClient,
) -> None:
    """Otherwise a request that nobody wrote would stay when its limit changes."""
    limits = {"limits": {"cpu": "1"}}
    container = {"name": "main", "image": "app:1", "resources": limits}
    ports = [{"containerPort": 80, "protocol": "TCP"}]
    spec = {"containers": [{**container, "ports": ports}], "hostNetwork": True}
    whole = {**spec, "resources": {"limits": {"cpu": "2"}}}
    item = deployment(template={**TEMPLATE, "spec": whole})
    created = (await kube.request("POST", DEPLOYMENTS, item)).json["spec"]["template"]["spec"]
    assert created["resources"] == {"limits": {"cpu": "2"}}
    (shown,) = created["containers"]
    assert (shown["resources"], shown["ports"]) == (limits, ports)


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
async def test_an_account_has_its_former_name_as_well(kube: KubeClient, field: str) -> None:
    spec = {**TEMPLATE["spec"], field: "builder"}
    item = deployment(template={**TEMPLATE, "spec": spec})
    created = (await kube.request("POST", DEPLOYMENTS, item)).json["spec"]["template"]["spec"]
    assert (created["serviceAccountName"], created["serviceAccount"]) == ("builder", "builder")


async def test_a_deployment_is_scaled_and_its_status_is_written(kube: KubeClient) -> None:
    created = (await kube.request("POST", DEPLOYMENTS, deployment())).json
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 4}}
    scaled = await kube.request("PUT", f"{DEPLOYMENTS}/web/scale", scale)
    assert scaled.json["status"]["selector"] == "app=web"
    created["status"] = {"observedGeneration": 2, "replicas": 4}
    created["metadata"].pop("resourceVersion")
    written = (await kube.request("PUT", f"{DEPLOYMENTS}/web/status", created)).json
    assert (written["spec"]["replicas"], written["status"]["replicas"]) == (4, 4)
    assert written["metadata"]["generation"] == 2


async def test_an_autoscaler_is_told_the_whole_selector(kube: KubeClient) -> None:
    """It counts the pods that this selects."""
    tiers = {"key": "tier", "operator": "NotIn", "values": ["b", "a"]}
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [tiers]}
    await kube.request("POST", DEPLOYMENTS, deployment(selector=selector))
    scale = (await kube.get(f"{DEPLOYMENTS}/web/scale")).json
    assert scale["status"]["selector"] == "app=web,tier notin (a,b)"


@pytest.mark.parametrize(
    ("path", "item", "field"),
    [
        (DEPLOYMENTS, deployment(template=ONCE), "spec.template.spec.restartPolicy"),
        (DEPLOYMENTS, deployment(selector={"matchLabels": {"app": "b"}}), "labels"),
        (DEPLOYMENTS, deployment(minReadySeconds=600), "spec.progressDeadlineSeconds"),
        (
            DEPLOYMENTS,
            deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            "spec.strategy.rollingUpdate.maxUnavailable",
        ),
        (DEPLOYMENTS, deployment(strategy={"rollingUpdate": {"maxSurge": "x"}}), "maxSurge"),
        (JOBS, job(template=TEMPLATE), "spec.template.spec.restartPolicy"),
        (JOBS, job(completionMode="Indexed", parallelism=1), "spec.completions"),
        (JOBS, job(podFailurePolicy={"rules": [{"action": "Ignore"}]}), "rules[0]"),
        (CRON_JOBS, cron_job("* * * *"), "spec.schedule"),
        (CRON_JOBS, cron_job("61 * * * *"), "spec.schedule"),
        (CRON_JOBS, cron_job("* * * * *", timeZone="Mars/North"), "spec.timeZone"),
    ],
)
async def test_what_no_controller_can_carry_out_is_refused(
    kube: KubeClient, path: str, item: dict[str, Any], field: str
) -> None:
    refused = await kube.request("POST", path, item)
    assert refused.status == 422
    assert field in refused.json["message"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"restartPolicy": "Never"}, 'restartPolicy: Unsupported value: "Never"'),
        ({"containers": []}, "containers: Required value"),
        ({"containers": [{"name": "a_b", "image": "i"}]}, "containers[0].name: Invalid value"),
        ({"activeDeadlineSeconds": 5}, "is not Supported"),
    ],
)
async def test_a_template_whose_pods_would_be_refused_is_refused(
    kube: KubeClient, kind: str, change: dict[str, Any], message: str
) -> None:
    spec = {**TEMPLATE["spec"], **change}
    item = deployment(template={**TEMPLATE, "spec": spec}) | {"kind": kind}
    path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
    refused = await kube.request("POST", path, item)
    assert refused.status == 422
    assert "spec.template.spec." in refused.json["message"]
    assert message in refused.json["message"]


async def test_the_claims_of_a_stateful_set_are_volumes_of_its_template(kube: KubeClient) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "main", "image": "app:1", "volumeMounts": mounts}
    template = {**TEMPLATE, "spec": {"containers": [container]}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    item = deployment(template=template) | {"kind": "StatefulSet"}
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    refused = await kube.request("POST", path, item)
    assert 'volumeMounts[0].name: Not found: "data"' in refused.json["message"]
    item["spec"]["volumeClaimTemplates"] = [claim]
    assert (await kube.request("POST", path, item)).status == 201


@pytest.mark.parametrize("schedule", ["*/5 0-6,22 1 jan-mar mon", "@hourly", "@every 1h30m"])
async def test_schedules_of_cron_are_accepted(kube: KubeClient, schedule: str) -> None:
    assert (await kube.request("POST", CRON_JOBS, cron_job(schedule))).status == 201


async def test_a_job_selects_its_pods_by_its_uid(kube: KubeClient) -> None:
    created = (await kube.request("POST", JOBS, job())).json
    uid = created["metadata"]["uid"]
    name = "batch.kubernetes.io/controller-uid"
    assert created["spec"]["selector"] == {"matchLabels": {name: uid}}
    labels = created["spec"]["template"]["metadata"]["labels"]
    assert (labels[name], labels["job-name"]) == (uid, "count")
    counted = ("parallelism", "completions", "backoffLimit")
    assert created["metadata"]["labels"] == labels
    assert [created["spec"][field] for field in counted] == [1, 1, 6]


async def test_jobs_are_selected_by_how_many_of_their_pods_succeeded(kube: KubeClient) -> None:
    await kube.request("POST", JOBS, job())
    merge = {"content-type": "application/merge-patch+json"}
    await kube.request("PATCH", f"{JOBS}/count/status", {"status": {"succeeded": 1}}, merge)
    for successful, expected in ((1, 1), (2, 0)):
        found = await kube.get(f"{JOBS}?fieldSelector=status.successful%3D{successful}")
        assert len(found.json["items"]) == expected


async def test_the_template_of_a_job_stays(kube: KubeClient) -> None:
    created = (await kube.request("POST", JOBS, job())).json
    assert (await kube.request("PUT", f"{JOBS}/count", created)).status == 200
    created["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
    refused = await kube.request("PUT", f"{JOBS}/count", created)
    assert (refused.status, "spec.template" in refused.json["message"]) == (422, True)


async def test_plain_text_of_a_secret_becomes_data(kube: KubeClient) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}}
    created = await kube.request("POST", SECRETS, {**secret, "stringData": {"key": "hunter2"}})
    assert created.json["type"] == "Opaque"
    assert created.json["data"] == {"key": "aHVudGVyMg=="}
    assert "stringData" not in created.json


async def test_no_value_of_a_secret_is_in_an_error(kube: KubeClient) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}}
    refused = await kube.request("POST", SECRETS, {**secret, "data": {"key": "not base64 hunter2"}})
    assert (refused.status, "data[key]" in refused.json["message"]) == (422, True)
    assert b"hunter2" not in refused.body


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("options", "held_by"),
    [
        ("", ["orphan"]),
        ("?propagationPolicy=Background", []),
        ("?propagationPolicy=Foreground", ["foregroundDeletion"]),
        ("?orphanDependents=false", []),
    ],
)
async def test_a_deleted_job_keeps_its_pods_unless_the_request_says_otherwise(
    world: World, kube: KubeClient, options: str, held_by: list[str], whole: bool
) -> None:
    """As in batch/v1, and a warning says so; kubectl asks for Background."""
    await kube.request("POST", JOBS, job())
    path = JOBS if whole else f"{JOBS}/count"
    answer = await kube.request("DELETE", f"{path}{options}")
    assert answer.status == 200
    found = [] if (await kube.get(f"{JOBS}/count")).status == 404 else None
    if found is None:
        stored = (await world.core.registry.get("Job", "default", "count")).message
        found = list(stored.metadata.finalizers)
    assert found == held_by
    assert ("pods are preserved" in answer.headers.get("warning", "")) is (options == "")


@pytest.mark.parametrize("whole", [False, True])
async def test_a_job_whose_pods_are_deleted_first_does_not_keep_them_if_it_is_deleted_again(
    world: World, kube: KubeClient, whole: bool
) -> None:
    await kube.request("POST", JOBS, job())
    await kube.request("DELETE", f"{JOBS}/count?propagationPolicy=Foreground")
    await world.core.reflector.wait_until_fresh()
    await kube.request("DELETE", JOBS if whole else f"{JOBS}/count")
    left = (await kube.get(f"{JOBS}/count")).json
    assert left["metadata"]["finalizers"] == ["foregroundDeletion"]
