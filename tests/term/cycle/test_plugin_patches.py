"""What plugins leave in a cycle's state is written with the fence."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.framework.plugin import CycleState, ObjectPatch
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import FenceLost
from podsched.term.cycle.plugin_patches import PluginPatches
from podsched.v1 import api_pb2


class DeposedCluster:
    """Refuses whole calls, as the client of a Kubernetes cluster does once the lock is lost."""

    async def patch_many(self, patches: Any, *, fence: api_pb2.Fence) -> Any:
        raise FenceLost("term 1 is over")


async def test_a_call_that_is_refused_because_another_replica_leads_ends_the_term() -> None:
    tasks = TaskSet("the term")
    cluster: Any = DeposedCluster()
    activator: Any = SimpleNamespace(activate=lambda pods: None)
    patches = PluginPatches(cluster, api_pb2.Fence(lock="a/b", term=1), tasks, activator)
    state = CycleState()
    state.patches = (ObjectPatch("ResourceClaim", "default", "c", {"status": {}}),)
    pod: Any = SimpleNamespace(key="default/p")
    patches.write(state, pod)
    running = asyncio.create_task(tasks.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert running.done()
    with pytest.raises(FenceLost):
        await running
