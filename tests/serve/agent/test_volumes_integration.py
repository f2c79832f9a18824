"""The volume controller against a real API server over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import PersistentVolume, PersistentVolumeClaim
from support.agent_world import AgentWorld
from support.eventually import eventually

pytestmark = pytest.mark.integration


async def apply(world: AgentWorld, kind: str, name: str, **content: Any) -> None:
    group = "storage.k8s.io/v1" if kind == "StorageClass" else "v1"
    metadata = {"name": name}
    if kind == "PersistentVolumeClaim":
        metadata["namespace"] = "default"
    manifest = {"apiVersion": group, "kind": kind, "metadata": metadata, **content}
    await world.client.create(from_manifest(manifest).message)


async def volume(world: AgentWorld, name: str, size: str, **spec: Any) -> None:
    await apply(
        world,
        "PersistentVolume",
        name,
        spec={
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual",
            "hostPath": {"path": "/x"},
            **spec,
        },
    )


async def claim(world: AgentWorld, name: str, class_name: str, size: str = "1Gi") -> None:
    await apply(
        world,
        "PersistentVolumeClaim",
        name,
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        },
    )


async def read_claim(world: AgentWorld, name: str) -> PersistentVolumeClaim:
    found = await world.client.get("PersistentVolumeClaim", name)
    assert isinstance(found, PersistentVolumeClaim)
    return found


async def read_volume(world: AgentWorld, name: str) -> PersistentVolume:
    found = await world.client.get("PersistentVolume", name)
    assert isinstance(found, PersistentVolume)
    return found


async def until_bound(world: AgentWorld, name: str) -> None:
    async def phase() -> str:
        return (await read_claim(world, name)).status.phase

    await eventually(f"claim {name} is bound", phase, "Bound")


async def test_claims_without_a_class_object_get_the_smallest_volumes(world: AgentWorld) -> None:
    await world.play()
    for name, size in (("large", "10Gi"), ("small", "1Gi"), ("middle", "5Gi")):
        await volume(world, name, size)
    await claim(world, "one", "manual", "3Gi")
    await claim(world, "two", "manual", "3Gi")
    await until_bound(world, "one")
    await until_bound(world, "two")
    names = {(await read_claim(world, name)).spec.volume_name for name in ("one", "two")}
    assert names == {"middle", "large"}
    assert (await read_volume(world, "small")).status.phase == "Available"
    assert (await read_volume(world, "middle")).status.phase == "Bound"


async def test_a_claim_of_a_waiting_class_is_bound_to_what_the_scheduler_chose(
    world: AgentWorld,
) -> None:
    await world.play()
    mode = {"provisioner": "example.com/nobody", "volumeBindingMode": "WaitForFirstConsumer"}
    await apply(world, "StorageClass", "dyn", **mode)
    await claim(world, "data", "dyn")
    await volume(world, "free", "1Gi", storageClassName="dyn")
    await asyncio.sleep(0.3)
    assert (await read_claim(world, "data")).status.phase == "Pending"
    reference = {"namespace": "default", "name": "data"}
    await volume(world, "made", "1Gi", storageClassName="dyn", claimRef=reference)
    await until_bound(world, "data")
    found = await read_claim(world, "data")
    assert found.spec.volume_name == "made"
    assert found.metadata.annotations["pv.kubernetes.io/bind-completed"] == "yes"


async def test_a_volume_is_provisioned_where_the_pod_is_to_run_and_deleted_with_its_claim(
    world: AgentWorld,
) -> None:
    await world.play(nodes=2, zones=("a", "b"))
    mode = {"provisioner": "podsched.io/hollow", "volumeBindingMode": "WaitForFirstConsumer"}
    await apply(world, "StorageClass", "dyn", **mode)
    await claim(world, "data", "dyn")
    chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-0001"}}}
    await world.client.patch("PersistentVolumeClaim", "data", chosen)
    await until_bound(world, "data")
    name = (await read_claim(world, "data")).spec.volume_name
    terms = (await read_volume(world, name)).spec.node_affinity.required.node_selector_terms
    assert [(e.key, list(e.values)) for e in terms[0].match_expressions] == [
        ("topology.kubernetes.io/zone", ["b"])
    ]
    await world.client.delete("PersistentVolumeClaim", "data")

    async def volumes() -> list[Any]:
        return list((await world.client.list("PersistentVolume")).items)

    await eventually("the volume is deleted", volumes, [])


async def test_a_kept_volume_is_released_when_its_claim_goes(world: AgentWorld) -> None:
    await world.play()
    await volume(world, "kept", "1Gi")
    await claim(world, "data", "manual")
    await until_bound(world, "data")
    await world.client.delete("PersistentVolumeClaim", "data")

    async def phase() -> str:
        return (await read_volume(world, "kept")).status.phase

    await eventually("the volume is released", phase, "Released")
