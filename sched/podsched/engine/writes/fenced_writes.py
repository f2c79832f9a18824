"""The writes of a term: each carries its fence, and a lost one is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsched.api.reasons import StatusCode, StatusReason
from podsched.client.cluster import Cluster
from podsched.client.errors import ClientError, FenceLost, Unavailable
from podsched.engine.writes.bind_batches import BinderUnavailable
from podsched.v1 import api_pb2


class ClientBinder:
    """Binds through the replica's own connection."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def bind(
        self, bindings: Sequence[api_pb2.Binding], fence: api_pb2.Fence, traceparent: str
    ) -> Sequence[api_pb2.BatchResult]:
        try:
            return await self._cluster.bind_pods(bindings, fence=fence, traceparent=traceparent)
        except Unavailable as exc:
            raise BinderUnavailable(str(exc)) from exc
        except FenceLost as exc:
            lost = api_pb2.BatchResult(
                code=StatusCode.FAILED_PRECONDITION,
                reason=StatusReason.FENCE_LOST,
                message=str(exc),
            )
            return [lost] * len(bindings)
        except ClientError as exc:
            failed = api_pb2.BatchResult(
                code=StatusCode.INTERNAL, reason=exc.reason, message=str(exc)
            )
            return [failed] * len(bindings)


class FencedWrites:
    """Status patches, object patches and evictions of one term."""

    def __init__(
        self, cluster: Cluster, fence: api_pb2.Fence, fence_lost: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._fence = fence
        self._fence_lost = fence_lost

    async def patch_statuses(
        self, patches: Sequence[api_pb2.PodStatusPatch]
    ) -> Sequence[api_pb2.BatchResult]:
        return await self._cluster.patch_pod_statuses(patches, fence=self._fence)

    async def patch_objects(
        self, patches: Sequence[api_pb2.PatchRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        return self._checked(await self._cluster.patch_many(patches, fence=self._fence))

    async def evict(
        self, requests: Sequence[api_pb2.EvictRequest]
    ) -> Sequence[api_pb2.BatchResult]:
        """Results for all, also when the call as a whole failed."""
        try:
            return self._checked(await self._cluster.evict_pods(requests, fence=self._fence))
        except ClientError as exc:
            failed = api_pb2.BatchResult(
                code=StatusCode.UNAVAILABLE, reason=exc.reason, message=str(exc)
            )
            return [failed] * len(requests)

    def _checked(self, results: Sequence[api_pb2.BatchResult]) -> Sequence[api_pb2.BatchResult]:
        if any(result.reason == StatusReason.FENCE_LOST for result in results):
            self._fence_lost()
        return results
