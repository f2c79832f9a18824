"""binding, eviction and scale over HTTP."""

from __future__ import annotations

import pytest

from podsched.api.objects import ClusterRole, PolicyRule
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, identity, rule
from support.api_objects import node, pod
from support.api_world import World
from support.kube_client import KubeClient

PODS = "/api/v1/namespaces/default/pods"


def to(node: str, name: str = "a") -> dict[str, object]:
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


async def test_a_pod_is_bound_once(world: World, kube: KubeClient) -> None:
    await world.core.creator.create(pod("a"))
    bound = await kube.request("POST", f"{PODS}/a/binding", to("worker-1"))
    assert (bound.status, bound.json["status"]) == (201, "Success")
    again = await kube.request("POST", f"{PODS}/a/binding", to("worker-2"))
    assert again.json["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": '
        'pod a is already assigned to node "worker-1"'
    )


async def test_the_place_of_a_pod_is_that_of_its_node(world: World, kube: KubeClient) -> None:
    zone = "topology.kubernetes.io/zone"
    place = node("placed")
    place.metadata.labels[zone] = "z1"
    await world.core.creator.create_many([pod("a"), place])
    await world.core.reflector.wait_until_fresh()
    binding = to("placed")
    binding["metadata"] = {"name": "a", "labels": {zone: "z2", "more": "x"}}
    await kube.request("POST", f"{PODS}/a/binding", binding)
    stored = (await kube.get(f"{PODS}/a")).json["metadata"]
    assert stored["labels"] == {zone: "z1", "more": "x"}


async def test_dry_runs_tell_what_would_be_and_do_nothing(world: World, kube: KubeClient) -> None:
    await world.core.creator.create(pod("a"))
    tried = await kube.request("POST", f"{PODS}/a/binding?dryRun=All", to("worker-1"))
    assert tried.status == 201
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await kube.request("POST", f"{PODS}/a/eviction?dryRun=All", body)).status == 201
    assert "nodeName" not in (await kube.get(f"{PODS}/a")).json["spec"]
    await kube.request("POST", f"{PODS}/a/binding", to("worker-1"))
    again = await kube.request("POST", f"{PODS}/a/binding?dryRun=All", to("worker-2"))
    assert again.status == 409


async def test_a_binding_without_a_node_is_a_failure_of_the_server(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create(pod("a"))
    response = await kube.request("POST", f"{PODS}/a/binding", to(""))
    assert (response.status, response.json["message"]) == (500, "target.name: Required value")


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"a": "b c"}}, "metadata.labels"),
        ({"annotations": {"a b": "c"}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * (1 << 20)}}, "metadata.annotations"),
    ],
    ids=["key of a label", "value of a label", "key of an annotation", "size"],
)
async def test_a_binding_with_what_no_pod_may_have_is_refused(
    world: World, kube: KubeClient, metadata: dict[str, object], field: str
) -> None:
    """Every later change of the pod would be invalid."""
    await world.core.creator.create(pod("a"))
    binding = to("worker-1") | {"metadata": {"name": "a", **metadata}}
    refused = await kube.request("POST", f"{PODS}/a/binding", binding)
    assert refused.status == 422, refused.json
    assert f'Pod "a" is invalid: {field}: ' in refused.json["message"]
    assert "nodeName" not in (await kube.get(f"{PODS}/a")).json["spec"]


async def test_an_eviction_removes_the_pod(world: World, kube: KubeClient) -> None:
    await world.core.creator.create(pod("a"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await kube.request("POST", f"{PODS}/a/eviction", body)).status == 201
    assert (await kube.get(f"{PODS}/a")).status == 404


async def test_an_owner_is_scaled(kube: KubeClient) -> None:
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    owner = {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }
    assert (await kube.request("POST", sets, owner)).status == 201
    scale = (await kube.get(f"{sets}/web/scale")).json
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 1}, "app=web")
    assert scale["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    of_another = {**scale, "metadata": {"name": "web", "uid": "of-a-deleted-one"}}
    assert (await kube.request("PUT", f"{sets}/web/scale", of_another)).status == 409
    for given in ({"name": "other"}, {"name": "web", "namespace": "other"}, {}):
        elsewhere = {**scale, "metadata": given}
        assert (await kube.request("PUT", f"{sets}/web/scale", elsewhere)).status == 400
    scale["spec"]["replicas"] = 3
    assert (await kube.request("PUT", f"{sets}/web/scale", scale)).json["spec"] == {"replicas": 3}
    assert (await kube.get(f"{sets}/web")).json["spec"]["replicas"] == 3


async def test_a_scale_cannot_be_applied(kube: KubeClient) -> None:
    """Taken for another patch, it would take replicas over from who has applied them."""
    path = "/apis/apps/v1/namespaces/default/replicasets/web/scale?fieldManager=me"
    apply = {"content-type": "application/apply-patch+yaml"}
    assert (await kube.request("PATCH", path, {"spec": {"replicas": 5}}, apply)).status == 415


async def test_who_scales_takes_the_replicas_over_from_who_has_applied_them(
    kube: KubeClient,
) -> None:
    path = "/apis/apps/v1/namespaces/default/replicasets/web"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }
    apply = {"content-type": "application/apply-patch+yaml"}
    await kube.request("PATCH", f"{path}?fieldManager=one", owner, apply)
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 5}}
    scaled = await kube.request("PUT", f"{path}/scale?fieldManager=autoscaler", scale)
    assert scaled.status == 200
    refused = await kube.request("PATCH", f"{path}?fieldManager=one", owner, apply)
    shown = 'conflict with "autoscaler" with subresource "scale" using apps/v1'
    assert refused.json["message"].endswith(f"{shown}: .spec.replicas")


@pytest.mark.parametrize(
    ("rules", "statuses"),
    [
        ([rule("get update", "replicasets/scale", groups=("apps",))], (200, 200)),
        ([rule("get", "replicasets", groups=("apps",))], (200, 403)),
        ([rule("update", "replicasets", groups=("apps",))], (403, 403)),
    ],
    ids=["the scale alone", "reading the object", "neither"],
)
async def test_scaling_needs_rights_to_the_scale(
    world: World, rules: list[PolicyRule], statuses: tuple[int, int]
) -> None:
    """A HorizontalPodAutoscaler's controller has no others; who reads the object reads it, too."""
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    labels = {"app": "web"}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}}
    pod_spec = {"containers": [{"name": "main", "image": "app:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    manifest = {"metadata": {"name": "web"}, "spec": {**spec, "template": template}}
    assert (await KubeClient(world.core).request("POST", sets, manifest)).status == 201
    role = ClusterRole(metadata={"name": "scaler"}, rules=rules)
    for item in (role, binding_of("scaler", "eve")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    rights_of = world.core.authorizer.rights_of
    pipeline = Pipeline(authenticate=lambda _: identity("eve"), authorize=rights_of)
    eve = KubeClient(world.core, pipeline)
    scale = {"metadata": {"name": "web"}, "spec": {"replicas": 2}}
    read = await eve.get(f"{sets}/web/scale")
    written = await eve.request("PUT", f"{sets}/web/scale", scale)
    assert (read.status, written.status) == statuses
