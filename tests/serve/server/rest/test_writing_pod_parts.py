"""pods/ephemeralcontainers and pods/resize: what kubectl debug and in-place resizes write."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.serve.server.pipeline import Pipeline
from support.access_world import identity
from support.api_world import World
from support.kube_client import KubeClient

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
MIRROR = {"kubernetes.io/config.mirror": "x"}
DEBUGGER = {"name": "debugger", "image": "busybox", "targetContainerName": "main"}


def pod(**spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": amounts}}
    return {"metadata": {"name": "web"}, "spec": {"containers": [container], **spec}}


def debug(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": [*containers]}}


def resize(resources: dict[str, Any], name: str = "main", **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "resources": resources, **more}]}}


async def patched(kube: KubeClient, part: str, change: dict[str, Any]) -> Any:
    return await kube.request("PATCH", f"{PODS}/web/{part}", change, STRATEGIC)


async def test_kubectl_debug_adds_an_ephemeral_container(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    added = await patched(kube, "ephemeralcontainers", debug(DEBUGGER))
    assert added.status == 200
    assert added.json["metadata"]["generation"] == 2
    (container,) = added.json["spec"]["ephemeralContainers"]
    assert container["imagePullPolicy"] == "Always"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    shown = await kube.get(f"{PODS}/web/ephemeralcontainers")
    assert shown.json["spec"] == added.json["spec"]


async def test_nothing_but_ephemeral_containers_is_written_by_their_subresource(
    kube: KubeClient,
) -> None:
    created = (await kube.request("POST", PODS, pod())).json
    other = {"metadata": {"labels": {"new": "label"}}, "status": {"phase": "Failed"}}
    spec = {**debug(DEBUGGER)["spec"], "activeDeadlineSeconds": 5}
    added = (await patched(kube, "ephemeralcontainers", {**other, "spec": spec})).json
    assert "labels" not in added["metadata"]
    assert "activeDeadlineSeconds" not in added["spec"]
    assert added["status"] == created["status"]


async def test_an_ephemeral_container_is_neither_changed_nor_removed(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    await patched(kube, "ephemeralcontainers", debug(DEBUGGER))
    changed = await patched(kube, "ephemeralcontainers", debug({**DEBUGGER, "image": "app:2"}))
    assert 'containers "debugger" may not be changed' in changed.json["message"]
    stored = (await kube.get(f"{PODS}/web")).json
    stored["spec"]["ephemeralContainers"] = []
    removed = await kube.request("PUT", f"{PODS}/web/ephemeralcontainers", stored)
    assert 'containers "debugger" may not be removed' in removed.json["message"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("targetContainerName", "nobody", 'targetContainerName: Not found: "nobody"'),
        ("name", "main", 'name: Duplicate value: "main"'),
        ("ports", [{"containerPort": 80}], "ports: Forbidden: cannot be set for an Ephemeral"),
        ("resources", {"limits": {"cpu": 1}}, "resources: Forbidden: cannot be set"),
    ],
)
async def test_an_ephemeral_container_serves_nothing_and_reserves_nothing(
    kube: KubeClient, field: str, value: Any, message: str
) -> None:
    await kube.request("POST", PODS, pod())
    refused = await patched(kube, "ephemeralcontainers", debug({**DEBUGGER, field: value}))
    assert refused.status == 422
    assert f"spec.ephemeralContainers[0].{message}" in refused.json["message"]


async def test_a_pod_is_not_created_with_ephemeral_containers(kube: KubeClient) -> None:
    refused = await kube.request("POST", PODS, pod(ephemeralContainers=[DEBUGGER]))
    assert "spec.ephemeralContainers: Forbidden: cannot be set on create" in refused.json["message"]


async def test_a_resize_changes_cpu_and_memory(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    resized = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}))
    assert resized.status == 200, resized.json
    requests = resized.json["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "2", "memory": "64Mi"}
    assert resized.json["metadata"]["generation"] == 2
    plain = await patched(kube, "", resize({"requests": {"cpu": "1"}}))
    assert "pod updates may not change fields other than" in plain.json["message"]


async def create_over_grpc(world: World) -> None:
    """Create a pod whose amounts are written in another way than REST writes them."""
    amounts = {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "2048Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": amounts}}
    metadata = {"name": "web", "namespace": "default"}
    written = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    manifest = {**written, "spec": {"containers": [container]}}
    await world.core.creator.create(from_manifest(manifest).message)


async def test_a_pod_that_was_created_over_grpc_is_labelled(kube: KubeClient, world: World) -> None:
    await create_over_grpc(world)
    labelled = await patched(kube, "", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.status == 200, labelled.json
    assert labelled.json["metadata"]["generation"] == 1


async def test_a_pod_that_was_created_over_grpc_is_resized(kube: KubeClient, world: World) -> None:
    await create_over_grpc(world)
    resized = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}))
    assert resized.status == 200, resized.json


async def test_a_resize_changes_resources_alone(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    resized = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}, image="app:2"))
    assert resized.json["spec"]["containers"][0]["image"] == "app:1"


async def test_a_resize_is_applied(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    change = {"apiVersion": "v1", "kind": "Pod", **resize({"requests": {"cpu": "2"}}, image="b")}
    path = f"{PODS}/web/resize?fieldManager=me&force=true"
    applied = await kube.request("PATCH", path, change, APPLY)
    assert applied.status == 200, applied.json
    assert applied.json["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    mine = [each for each in applied.json["metadata"]["managedFields"] if each["manager"] == "me"]
    assert [each["subresource"] for each in mine] == ["resize"]
    assert "image" not in str(mine[0]["fieldsV1"])


async def test_a_resize_that_is_applied_leaves_the_owners_of_labels(kube: KubeClient) -> None:
    """It does not write them, even if it has others."""
    await kube.request("POST", PODS, pod())
    written: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod"}
    owned = {**written, "metadata": {"labels": {"app": "web"}}}
    await kube.request("PATCH", f"{PODS}/web?fieldManager=owner", owned, APPLY)
    more = resize({"requests": {"cpu": "2"}})
    change = {**written, "metadata": {"labels": {"app": "db"}}, **more}
    path = f"{PODS}/web/resize?fieldManager=me&force=true"
    applied = await kube.request("PATCH", path, change, APPLY)
    assert applied.json["metadata"]["labels"] == {"app": "web"}
    owners = applied.json["metadata"]["managedFields"]
    fields = {each["manager"]: each["fieldsV1"] for each in owners}
    assert fields["owner"] == {"f:metadata": {"f:labels": {"f:app": {}}}}
    assert fields["me"].keys() == {"f:spec"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (resize({"requests": {"cpu": None}}), "requests: Forbidden: resource requests cannot be"),
        (resize({"requests": {"ephemeral-storage": "1Gi"}}), "only cpu and memory resources are"),
        (resize({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "1"}}), "QOS Class"),
        (resize({"requests": {"cpu": "-1"}}), "must be greater than or equal to 0"),
        (resize({}, name="other", image="a"), "containers may not be added or removed on resize"),
        (
            resize({}, resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
            "only cpu and memory resources are mutable",
        ),
    ],
)
async def test_a_resize_removes_no_request_and_changes_neither_class_nor_containers(
    kube: KubeClient, change: dict[str, Any], message: str
) -> None:
    await kube.request("POST", PODS, pod())
    refused = await patched(kube, "resize", change)
    assert refused.status == 422
    assert message in refused.json["message"]


async def test_resources_of_the_whole_pod_are_resized(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod(resources={"requests": {"cpu": "1"}}))
    resized = await patched(kube, "resize", {"spec": {"resources": {"requests": {"cpu": "2"}}}})
    assert resized.json["spec"]["resources"]["requests"] == {"cpu": "2"}
    less = {"spec": {"resources": {"requests": {"cpu": None, "memory": "1Gi"}}}}
    refused = await patched(kube, "resize", less)
    assert "pod-level resource requests cannot be removed" in refused.json["message"]


async def test_an_init_container_is_resized_unless_that_would_restart_it(kube: KubeClient) -> None:
    again = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    first = {"name": "first", "image": "app:1", "resizePolicy": again}
    second = {"name": "second", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    await kube.request("POST", PODS, pod(initContainers=[first, second]))
    for name, problem in (("first", "with a resize policy of RestartContainer"), ("second", "")):
        item = {"name": name, "resources": {"requests": {"cpu": "2"}}}
        answer = await patched(kube, "resize", {"spec": {"initContainers": [item]}})
        assert answer.status == (422 if problem else 200)
        assert problem in answer.json.get("message", "")


async def test_a_running_pod_is_resized_only_where_its_node_does_that(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    status: dict[str, Any] = {"name": "main", "state": {"running": {}}}
    for resources, expected in ((None, 422), ({"requests": {"cpu": "100m"}}, 200)):
        given = {
            "containerStatuses": [{**status, **({"resources": resources} if resources else {})}]
        }
        written = await kube.request("PATCH", f"{PODS}/web/status", {"status": given}, STRATEGIC)
        assert written.status == 200
        answer = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}))
        assert answer.status == expected


async def test_static_pods_are_neither_resized_nor_debugged(kube: KubeClient) -> None:
    static = pod(nodeName="n1")
    static["metadata"]["annotations"] = MIRROR
    await kube.request("POST", PODS, static)
    resized = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}))
    assert "static pods cannot be resized" in resized.json["message"]
    debugged = await patched(kube, "ephemeralcontainers", debug(DEBUGGER))
    assert "static pods do not support ephemeral containers" in debugged.json["message"]


async def test_a_resize_stays_within_the_limit_ranges(kube: KubeClient) -> None:
    await kube.request("POST", PODS, pod())
    item = {"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1"}}
    limits = {"metadata": {"name": "small"}, "spec": {"limits": [item]}}
    await kube.request("POST", "/api/v1/namespaces/default/limitranges", limits)
    refused = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}))
    assert refused.status == 403
    assert "maximum cpu usage per Container is 1" in refused.json["message"]


async def test_a_resize_stays_within_the_quotas_and_is_charged(
    world: World, kube: KubeClient
) -> None:
    quotas = "/api/v1/namespaces/default/resourcequotas"
    hard = {"requests.cpu": "1", "pods": "5"}
    await kube.request("POST", quotas, {"metadata": {"name": "small"}, "spec": {"hard": hard}})
    await world.core.reflector.wait_until_fresh()
    await kube.request("POST", PODS, pod())
    refused = await patched(kube, "resize", resize({"requests": {"cpu": "2"}}))
    assert refused.json["message"] == (
        'pods "web" is forbidden: exceeded quota: small, requested: requests.cpu=1900m, '
        "used: requests.cpu=100m, limited: requests.cpu=1"
    )
    assert (await patched(kube, "resize", resize({"requests": {"cpu": "1"}}))).status == 200
    used = (await kube.get(f"{quotas}/small")).json["status"]["used"]
    assert used == {"pods": "1", "requests.cpu": "1"}


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
async def test_a_part_of_a_pod_needs_a_right_of_its_own(
    world: World, kube: KubeClient, part: str
) -> None:
    await kube.request("POST", PODS, pod())
    rule = {"verbs": ["patch", "update", "get"], "apiGroups": [""], "resources": ["pods"]}
    await may(kube, "writer", rule)
    await may(kube, "patcher", {**rule, "resources": [f"pods/{part}"]})
    change = debug(DEBUGGER) if part != "resize" else resize({"requests": {"cpu": "2"}})
    for user, expected in (("writer", 403), ("patcher", 200)):
        asking = Pipeline(
            authenticate=lambda _, user=user: identity(user),
            authorize=world.core.authorizer.rights_of,
        )
        answer = await patched(KubeClient(world.core, asking), part, change)
        assert answer.status == expected, answer.json


async def may(kube: KubeClient, user: str, rule: dict[str, Any]) -> None:
    group = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": user}, "rules": [rule]}
    await kube.request("POST", f"{group}/clusterroles", role)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    await kube.request("POST", f"{group}/clusterrolebindings", binding)
