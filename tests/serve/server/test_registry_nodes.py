"""What agents change through gRPC."""

from __future__ import annotations

import json

import pytest

from podsched.serve.server.access.identity import NODES
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import only_entry
from podsched.v1 import api_pb2 as v1
from support.access_world import calling, identity
from support.api_objects import pod
from support.api_world import World

WORKER_1 = identity("system:node:worker-1", NODES)


async def patch_status(world: World, kind: str, name: str) -> None:
    """Patch the status of an object, and nothing else of it, as worker-1."""
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    request = v1.PatchRequest(kind=kind, name=name)
    request.merge_patch = json.dumps({"status": status}).encode()
    with calling(world.core, WORKER_1):
        only_entry(await world.core.registry.patch([request], None))


async def test_an_agent_patches_the_status_of_its_own_node_alone(world: World) -> None:
    await patch_status(world, "Node", "worker-1")
    with pytest.raises(ApiError, match='node "worker-1": cannot be written by this node'):
        await patch_status(world, "Node", "worker-2")


async def test_an_agent_patches_the_status_of_its_own_pods_alone(world: World) -> None:
    for name, node_name in (("mine", "worker-1"), ("anothers", "worker-2")):
        item = pod(name)
        item.spec.node_name = node_name
        await world.core.creator.create(item)
    await patch_status(world, "Pod", "mine")
    with pytest.raises(ApiError, match='is bound to "worker-2", not to this node'):
        await patch_status(world, "Pod", "anothers")
