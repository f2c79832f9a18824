"""Write the patches that plugins leave in CycleState at PostFilter and Unreserve.

No cycle waits for them. A patch that fails is logged: the plugin sees the object as it is when the
pod is tried again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from podsched.api.reasons import StatusCode
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import ClientError
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.activation import Activator
from podsched.term.cycle.pre_bind import PatchObjects, patch_request
from podsched.term.writes.fence import raise_if_fence_lost
from podsched.v1 import api_pb2

#: Seconds after a failed patch until the pod that needs it is tried again.
RETRY_AFTER = 1.0

_log = get_logger("scheduler")


class PluginPatches:
    """See the module."""

    def __init__(self, patch: PatchObjects, tasks: TaskSet, activator: Activator) -> None:
        self._patch = patch
        self._tasks = tasks
        self._activator = activator

    def write(self, state: CycleState, pod: PodInfo, *, try_again: bool = False) -> None:
        """Start to write the patches of a pod's cycle.

        ``try_again``: the pod waits for the result, so activate it if a patch fails.
        """
        if not state.patches:
            return
        requests = [patch_request(patch) for patch in state.patches]
        state.patches.clear()
        self._tasks.start(self._write(requests, pod, try_again), f"patches for {pod.key}")

    async def _write(
        self, requests: Sequence[api_pb2.PatchRequest], pod: PodInfo, try_again: bool
    ) -> None:
        try:
            results = await self._patch(requests)
        except ClientError as failure:
            problems = [str(failure)]
        else:
            raise_if_fence_lost(results)
            problems = [result.message for result in results if result.code != StatusCode.OK]
        if not problems:
            return
        _log.warning("A patch of a plugin failed", pod=pod.key, error=problems[0])
        if try_again:
            await asyncio.sleep(RETRY_AFTER)
            self._activator.activate([pod])
