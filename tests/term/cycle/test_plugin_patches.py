"""What plugins leave in a cycle's state is written with the fence."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.api.reasons import StatusCode
from podsched.framework.plugin import CycleState, ObjectDeletion, ObjectPatch
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import FenceLost, Unavailable
from podsched.term.cycle.plugin_patches import PluginPatches
from podsched.v1 import api_pb2


class DeposedCluster:
    """Refuses patches, because another replica leads; deletions are not answered."""

    async def patch_many(self, patches: Any, *, fence: api_pb2.Fence) -> Any:
        refused = api_pb2.BatchResult(code=StatusCode.FAILED_PRECONDITION, reason="FENCE_LOST")
        return [refused] * len(patches)

    async def delete_many(self, deletions: Any, *, fence: api_pb2.Fence) -> Any:
        raise Unavailable("no API server answers")


async def test_a_patch_that_is_refused_because_another_replica_leads_ends_the_term() -> None:
    tasks = TaskSet("the term")
    cluster: Any = DeposedCluster()
    activator: Any = SimpleNamespace(activate=lambda pods: None)
    patches = PluginPatches(cluster, api_pb2.Fence(lock="a/b", term=1), tasks, activator)
    state = CycleState()
    state.patches = (ObjectPatch("ResourceClaim", "default", "c", {"status": {}}),)
    state.deletions = (ObjectDeletion("ResourceClaim", "default", "d"),)
    pod: Any = SimpleNamespace(key="default/p")
    patches.write(state, pod)
    running = asyncio.create_task(tasks.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert running.done()
    with pytest.raises(FenceLost):
        await running
