"""The official client of Kubernetes and an asyncio one: objects, and informers that go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import kubernetes
import kubernetes_asyncio
import pytest
from kubernetes.informer import SharedInformer

from podsched.serve.client.api_client import ApiClient
from support.eventually import eventually
from support.kube_cluster import KubeCluster
from support.real_cluster import admin_options, real_cluster

pytestmark = pytest.mark.integration


def manifest(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers},
    }


def test_the_official_client_reads_what_grpc_wrote_and_the_other_way_round(
    kube: KubeCluster,
) -> None:
    config = kubernetes.config.new_client_from_config(kube.kubeconfig)
    core = kubernetes.client.CoreV1Api(config)
    created = core.create_namespaced_pod("default", manifest("both"))

    async def seen_over_grpc() -> Any:
        cluster = kube.cluster
        async with ApiClient(cluster.server, admin_options(cluster)) as client:
            return await client.get("Pod", "both", "default")

    seen = kube.runner.run(seen_over_grpc())
    assert seen.metadata.uid == created.metadata.uid
    version = seen.metadata.resource_version
    read = core.read_namespaced_pod("both", "default")
    assert int(read.metadata.resource_version) >= int(version)
    core.patch_namespaced_pod("both", "default", {"metadata": {"labels": {"a": "b"}}})
    listed = core.list_namespaced_pod("default", label_selector="a=b")
    assert [item.metadata.name for item in listed.items] == ["both"]
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.create_namespaced_pod("default", manifest("both"))
    assert refused.value.status == 409
    core.delete_namespaced_pod("both", "default", grace_period_seconds=0)
    config.close()


async def test_informers_go_on_when_the_api_server_has_been_killed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"replicas": 0, "nodes": 1, "kube_address": "127.0.0.1:0"}
    async with real_cluster(tmp_path, **options) as world:
        kubeconfig = str(world.cluster.specs.kubeconfig)
        blocking = kubernetes.config.new_client_from_config(kubeconfig)
        core = kubernetes.client.CoreV1Api(blocking)
        informer = SharedInformer(core.list_namespaced_pod, namespace="default")
        informer.start()
        api = await kubernetes_asyncio.config.new_client_from_config(kubeconfig)
        seen: list[str] = []
        watching = asyncio.create_task(watch(kubernetes_asyncio.client.CoreV1Api(api), seen))
        try:
            await asyncio.to_thread(core.create_namespaced_pod, "default", manifest("before"))
            await eventually("both see a pod", lambda: both(informer, seen, "before"))
            server = world.cluster.api_servers[0]
            restarts = server.restarts
            server.kill()
            await server.wait_restarted(restarts)
            await server.wait_ready()
            await asyncio.to_thread(core.create_namespaced_pod, "default", manifest("after"))
            await eventually("both see the next", lambda: both(informer, seen, "after"))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await asyncio.to_thread(informer.stop)
            await api.close()
            blocking.close()


def both(informer: SharedInformer, seen: list[str], name: str) -> bool:
    return f"default/{name}" in informer.cache.list_keys() and name in seen


async def watch(core: Any, seen: list[str]) -> None:
    """Notes each pod that is there or comes; begins anew when the connection ends."""
    while True:
        try:
            async with kubernetes_asyncio.watch.Watch() as stream:
                async for event in stream.stream(core.list_namespaced_pod, "default"):
                    seen.append(event["object"].metadata.name)
        except (aiohttp.ClientError, OSError, kubernetes_asyncio.client.ApiException):
            await asyncio.sleep(0.1)
