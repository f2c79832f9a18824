"""A leader's writes of pods in a Kubernetes cluster: bindings, evictions, statuses."""

from __future__ import annotations

from collections.abc import Callable

from podsched.api.kinds import KINDS
from podsched.api.objects import Pod, timestamp
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.client import errors
from podsched.serve.client.errors import Conflict
from podsched.serve.kube import writes
from podsched.serve.kube.fenced import DONE, FencedWrites
from podsched.serve.kube.http import STRATEGIC_MERGE_PATCH, KubeHttp
from podsched.serve.kube.objects import read_object
from podsched.serve.kube.paths import of_object
from podsched.v1 import api_pb2 as v1

_POD = KINDS["Pod"]


class PodWrites:
    """Writes of single pods; ``now`` returns Unix time in seconds. Raises ClientError."""

    def __init__(self, http: KubeHttp, fenced: FencedWrites, now: Callable[[], float]) -> None:
        self._http = http
        self._fenced = fenced
        self._now = now
        self.known_pod: Callable[[str], object] = lambda key: None
        """Returns the pod that was last seen under a key."""

    async def bind(
        self, wanted: v1.Binding, fence: v1.Fence, headers: dict[str, str]
    ) -> v1.BatchResult:
        """Bind a pod."""
        try:
            path = of_object(_POD, wanted.name, wanted.namespace, "binding")
            body, repeatable = writes.binding(wanted), bool(wanted.uid)
            return await self._fenced.write(
                "POST", path, body, fence, repeatable=repeatable, headers=headers
            )
        except Conflict as conflict:
            return await self._not_bound(wanted, conflict)

    async def _not_bound(self, wanted: v1.Binding, conflict: Conflict) -> v1.BatchResult:
        """Determine the cause of a Conflict, which only its text has, from the current pod."""
        path = of_object(_POD, wanted.name, wanted.namespace)
        try:
            pod = read_object(_POD, await self._http.request("GET", path))
        except errors.ClientError as error:
            if conflict.outcome_unknown:
                # It may be with this binding, whose first answer was lost.
                raise errors.in_doubt(error) from error
            raise
        assert isinstance(pod, Pod)
        result = v1.BatchResult(code=StatusCode.FAILED_PRECONDITION, message=conflict.message)
        if wanted.uid and pod.metadata.uid != wanted.uid:
            result.reason = StatusReason.PRECONDITION_FAILED
        elif pod.spec.node_name == wanted.node_name and wanted.uid:
            return DONE  # bound by this binding, whose first answer was lost
        elif pod.spec.node_name:
            result.reason, result.node_name = StatusReason.ALREADY_BOUND, pod.spec.node_name
        elif pod.metadata.HasField("deletion_timestamp"):
            result.reason = StatusReason.POD_DELETING
        elif pod.spec.scheduling_gates:
            result.reason = StatusReason.SCHEDULING_GATED
        else:
            result.code, result.reason = StatusCode.ABORTED, StatusReason.CONFLICT
        return result

    async def evict(self, wanted: v1.EvictRequest, fence: v1.Fence) -> v1.BatchResult:
        """Set a pod's condition, if one is wanted, and evict or delete it."""
        uid = wanted.preconditions.uid
        path = of_object(_POD, wanted.name, wanted.namespace)
        try:
            if wanted.HasField("condition"):
                patch = writes.condition_patch(
                    wanted.condition, uid, timestamp(self._now(), whole=True)
                )
                where = f"{path}/status"
                await self._fenced.write("PATCH", where, patch, fence, STRATEGIC_MERGE_PATCH)
            if wanted.ignore_disruption_budgets:
                options = writes.delete_options(wanted)
                return await self._fenced.write("DELETE", path, options, fence)
            return await self._evict_within_budget(path, wanted, fence)
        except Conflict as error:
            # The only possible cause is the precondition of a uid or resourceVersion.
            raise errors.PreconditionFailed(error.message, reason=error.reason) from error

    async def _evict_within_budget(
        self, path: str, wanted: v1.EvictRequest, fence: v1.Fence
    ) -> v1.BatchResult:
        body = writes.eviction(wanted)
        try:
            # 429 is a budget's refusal here, and not that of an overloaded server.
            return await self._fenced.write(
                "POST", f"{path}/eviction", body, fence, repeatable=False, retry_after=False
            )
        except errors.TooManyRequests as error:
            raise errors.DisruptionBudget(error.message, reason=error.reason) from error

    async def patch_status(self, wanted: v1.PodStatusPatch, fence: v1.Fence) -> v1.BatchResult:
        """Set a pod's conditions and nomination."""
        pod = self.known_pod(f"{wanted.namespace}/{wanted.name}")
        known = pod if isinstance(pod, Pod) and pod.metadata.uid == wanted.uid else None
        path = of_object(_POD, wanted.name, wanted.namespace, "status")
        patch = writes.status_patch(wanted, known, timestamp(self._now(), whole=True))
        return await self._fenced.write("PATCH", path, patch, fence, STRATEGIC_MERGE_PATCH)
