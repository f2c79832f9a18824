"""A term of leadership on a cluster in memory with devices of one driver."""

from __future__ import annotations

from typing import Any

from podsched.api.manifest import from_manifest
from podsched.v1 import objects_pb2 as v1
from support.term_world import TermWorld

API = "resource.k8s.io/v1"


class Cluster(TermWorld):
    """A cluster with devices of one driver."""

    def make(self, kind: str, name: str, spec: Any, **more: Any) -> Any:
        """Create an object of resource.k8s.io."""
        metadata = {"name": name, **more.pop("metadata", {})}
        if kind == "ResourceClaim":
            metadata["namespace"] = "default"
        document = {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec, **more}
        return self.cluster.create(from_manifest(document).message)

    def gpus(self, node: str, *names: str, **device: Any) -> None:
        """Make a node and its devices."""
        self.node(node, cpu="16")
        self.slice(f"slice-{node}", node, *names, nodeName=node, **device)

    def slice(self, name: str, pool: str, *names: str, **spec: Any) -> None:
        extent = {k: spec.pop(k) for k in ("nodeName", "allNodes", "nodeSelector") if k in spec}
        self.make(
            "ResourceSlice",
            name,
            {
                "driver": "gpu.example.com",
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": device, **spec} for device in names],
                **extent,
            },
        )

    def claim(self, name: str, count: int = 1, **more: Any) -> Any:
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        request = {"name": "r", "exactly": exactly}
        return self.make("ResourceClaim", name, {"devices": {"requests": [request]}}, **more)

    def allocate(self, name: str, *devices: str) -> None:
        """Give devices ("pool/device") to a claim, as another scheduler does."""
        claim = self.stored_claim(name)
        for device in devices:
            pool, _, device_name = device.rpartition("/")
            claim.status.allocation.devices.results.add(
                request="r", driver="gpu.example.com", pool=pool, device=device_name
            )
        self.cluster.update(claim)

    def cordon(self, name: str) -> None:
        """Make a node unschedulable."""
        node = self.cluster.object("Node", name)
        assert isinstance(node, v1.Node)
        node.spec.unschedulable = True
        self.cluster.update(node)

    def user(self, name: str, *claims: str, **spec: Any) -> None:
        """Create a pod that uses claims."""
        refs = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        self.pod(name, resourceClaims=refs, **spec)

    def stored_claim(self, name: str) -> v1.ResourceClaim:
        found = self.cluster.object("ResourceClaim", f"default/{name}")
        assert isinstance(found, v1.ResourceClaim)
        return found

    def devices_of(self, name: str) -> list[str]:
        results = self.stored_claim(name).status.allocation.devices.results
        return [f"{result.pool}/{result.device}" for result in results]

    def users_of(self, name: str) -> list[str]:
        return [consumer.name for consumer in self.stored_claim(name).status.reserved_for]


async def a_cluster(world: Cluster | None = None, **nodes: list[str]) -> Cluster:
    world = world or Cluster()
    world.make("DeviceClass", "gpu", {})
    for name, devices in nodes.items():
        world.gpus(name, *devices)
    return world
