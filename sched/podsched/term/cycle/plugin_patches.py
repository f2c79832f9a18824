"""Write the patches, then the deletions, that plugins leave in CycleState.

PostFilter and Unreserve leave them there. No cycle waits until they are written. Failures are only
logged: the plugin reads the objects again when the pod is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from podsched.api.reasons import StatusCode
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import ClusterWrites
from podsched.serve.client.errors import ClientError, FenceLost, raise_if_fence_lost
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.activation import Activator
from podsched.term.cycle.pre_bind import delete_request, patch_request
from podsched.v1 import api_pb2

#: Seconds after a failed patch until the pod that needs it is tried again.
RETRY_AFTER = 1.0

_log = get_logger("scheduler")


class PluginPatches:
    """Writes the patches and deletions of one term."""

    def __init__(
        self, cluster: ClusterWrites, fence: api_pb2.Fence, tasks: TaskSet, activator: Activator
    ) -> None:
        self._cluster = cluster
        self._fence = fence
        self._tasks = tasks
        self._activator = activator

    def write(self, state: CycleState, pod: PodInfo, *, try_again: bool = False) -> None:
        """Start to write the patches of a pod's cycle.

        ``try_again``: the pod waits for the result, so activate it if a patch fails.
        """
        if not state.patches and not state.deletions:
            return
        patches = [patch_request(patch) for patch in state.patches]
        deletions = [delete_request(deletion) for deletion in state.deletions]
        state.patches, state.deletions = (), ()
        self._tasks.start(self._write(patches, deletions, pod, try_again), f"patches for {pod.key}")

    async def _write(
        self,
        patches: Sequence[api_pb2.PatchRequest],
        deletions: Sequence[api_pb2.DeleteRequest],
        pod: PodInfo,
        try_again: bool,
    ) -> None:
        results: list[api_pb2.BatchResult] = []
        try:
            if patches:
                results += await self._cluster.patch_many(patches, fence=self._fence)
                # Before the second call, whose failure would hide it.
                raise_if_fence_lost(results)
            if deletions:
                results += await self._cluster.delete_many(deletions, fence=self._fence)
        except FenceLost:
            raise
        except ClientError as failure:
            problems = [str(failure)]
        else:
            raise_if_fence_lost(results)
            problems = [
                result.message
                for result in results
                # An object that is gone needs neither patch nor deletion.
                if result.code not in (StatusCode.OK, StatusCode.NOT_FOUND)
            ]
        if not problems:
            return
        _log.warning("A patch of a plugin failed", pod=pod.key, error=problems[0])
        if try_again:
            await asyncio.sleep(RETRY_AFTER)
            self._activator.activate([pod])
