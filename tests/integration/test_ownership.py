"""What belongs to something else goes with it, though the leader is killed on the way.

With TLS: the leader has the rights of its role and no others.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.lab.bench.shapes import copies, pod_template
from podsched.serve.client.errors import NotFound
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration

KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "hollow"},
    "provisioner": "podsched.io/hollow",
    "volumeBindingMode": "WaitForFirstConsumer",
}
OWNER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "owner", "namespace": "shop"},
}


def scratch_pod() -> dict[str, Any]:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "hollow",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    spec = {
        "runtimeClassName": "kata",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        "volumes": [volume],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }


async def count(real: RealCluster, kind: str) -> int:
    return len((await real.client.list(kind, "shop")).items)


async def create(real: RealCluster, manifest: dict[str, Any]) -> AnyObject:
    return await real.client.create(from_manifest(manifest).message)


@pytest.mark.long
async def test_dependents_claims_and_namespaces_go_though_the_leader_is_killed(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, replicas=2, nodes=5, tls_dir=tmp_path / "tls") as real:
        for manifest in (KATA, CLASS):
            await create(real, manifest)
        await create(real, scratch_pod())

        async def running() -> str:
            found = await real.client.get("Pod", "web", "shop")
            assert isinstance(found, Pod) and found.spec.overhead["cpu"] == "250m"
            return found.status.phase

        await eventually("the pod runs with its volume", running, "Running")
        assert await count(real, "PersistentVolumeClaim") == 1
        await real.client.delete("Pod", "web", "shop")
        await eventually("the claim goes", lambda: count(real, "PersistentVolumeClaim"), 0)

        owner = await create(real, OWNER)
        pods = list(copies(pod_template(cpu="1m"), "owned", 400))
        for pod in pods:
            pod.metadata.namespace = "shop"
            pod.spec.termination_grace_period_seconds = 0
            pod.metadata.owner_references.add(
                api_version="v1", kind="ConfigMap", name="owner", uid=owner.metadata.uid
            )
        await real.client.create_pods(pods)
        await real.client.delete("ConfigMap", "owner", "shop")
        terms = len(real.observer.leaders)
        real.leader().kill(signal.SIGKILL)
        await eventually("a leader", lambda: len(real.observer.leaders) > terms)
        await eventually("the dependents go", lambda: count(real, "Pod"), 0)

        await create(real, OWNER)
        await real.client.delete("Namespace", "shop")

        async def is_there() -> bool:
            try:
                await real.client.get("Namespace", "shop")
            except NotFound:
                return False
            return True

        await eventually("the namespace goes", is_there, False)
        assert await count(real, "ConfigMap") == 0
