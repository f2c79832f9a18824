"""metrics.k8s.io, as far as no kubelet is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from podsched.api.manifest import from_manifest
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.serve.server.kubelets.client import KubeletClient
from podsched.serve.server.kubelets.usage import Usage
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.rest import resource_metrics
from support.access_world import identity
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = f"{METRICS}/namespaces/default/pods"


def client(world: World, user: str = "") -> KubeClient:
    """A client of a server whose kubelets must not be asked."""
    asking = Pipeline(
        authenticate=lambda _: identity(user), authorize=world.core.authorizer.rights_of
    )
    kubelets = cast(KubeletClient, object())
    return KubeClient(world.core, asking if user else None, kubelets=kubelets)


async def test_discovery_lists_what_kubectl_top_asks_for(world: World) -> None:
    listed = (await client(world).get(METRICS)).json["resources"]
    assert [(item["name"], item["kind"], item["verbs"]) for item in listed] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    groups = (await client(world).get("/apis")).json["groups"]
    assert "metrics.k8s.io" in [group["name"] for group in groups]


async def test_pods_that_run_nowhere_have_no_metrics(world: World) -> None:
    await world.core.creator.create(pod("web"))
    assert (await client(world).get(PODS)).json["items"] == []
    missing = await client(world).get(f"{PODS}/web")
    assert missing.json["message"] == 'podmetrics.metrics.k8s.io "web" not found'


@pytest.mark.parametrize(
    "path", ["podz", "pods/web", "namespaces/default/nodes", "namespaces/default/pods/a/b"]
)
async def test_another_path_is_not_found(world: World, path: str) -> None:
    assert (await client(world).get(f"{METRICS}/{path}")).status == 404


async def test_metrics_are_only_read(world: World) -> None:
    assert (await client(world).request("DELETE", f"{PODS}/web")).status == 405


async def test_a_viewer_of_a_namespace_sees_what_its_pods_use_and_nothing_else(
    world: World,
) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "sees", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await world.core.creator.create(from_manifest(binding).message)
    await world.core.reflector.wait_until_fresh()
    assert (await client(world, "eve").get(PODS)).status == 200
    for path in (f"{METRICS}/pods", f"{METRICS}/nodes"):
        refused = await client(world, "eve").get(path)
        assert refused.status == 403
        assert "cannot list resource" in refused.json["message"]


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, where to look at a pod's containers takes 0.7 of a round of the event loop.

    Made before the world, whose loop would have the real clocks otherwise.
    """
    now, happened = 0.0, list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)

    def slowly(pod: Any, usage: Mapping[Any, Usage]) -> dict[str, Usage]:
        nonlocal now
        now += 0.7 * ROUND
        happened.append("pod")
        return {"app": Usage(0.1, 1 << 20, 1.0, 10.0)}

    monkeypatch.setattr(resource_metrics, "_containers", slowly)
    return happened


async def test_metrics_of_many_pods_keep_no_other_task_waiting(
    happened: list[str], world: World
) -> None:
    await world.core.creator.create_many([pod(f"p{number}") for number in range(10)])

    async def other() -> None:
        while True:
            happened.append("other")
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    items = (await client(world).get(PODS)).json["items"]
    task.cancel()
    assert [item["metadata"]["name"] for item in items] == [f"p{number}" for number in range(10)]
    assert max(len(pods.split()) for pods in " ".join(happened).split("other")) <= 2
