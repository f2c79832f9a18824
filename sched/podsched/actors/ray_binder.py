"""Binding through binder actors, or directly while none is ready."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.actors.binder_actor import NotBound
from podsched.actors.named_actor import NamedActor
from podsched.actors.ray_cluster import RayUnavailable
from podsched.engine.writes.bind_batches import Binder
from podsched.v1 import api_pb2

#: A batch takes some 10 ms. One that takes longer than this is sent again directly, which is safe:
#: binding a pod to the node it is bound to is a success.
BIND_TIMEOUT = 5.0


class RayBinder:
    """``Binder`` that takes the actors in turn; when one fails, the batch goes out directly."""

    def __init__(self, actors: Sequence[NamedActor], direct: Binder) -> None:
        self._actors = actors
        self._direct = direct
        self._turn = 0

    async def bind(
        self, bindings: Sequence[api_pb2.Binding], fence: api_pb2.Fence, traceparent: str
    ) -> Sequence[api_pb2.BatchResult]:
        actor = self._next()
        if actor is None:
            return await self._direct.bind(bindings, fence, traceparent)
        request = api_pb2.BindPodsRequest(bindings=bindings, fence=fence).SerializeToString()
        try:
            answer = await actor.call("bind", request, traceparent, timeout=BIND_TIMEOUT)
        except RayUnavailable:
            return await self._direct.bind(bindings, fence, traceparent)
        if isinstance(answer, NotBound):
            # The actor may be cut off from the API servers where this process is not.
            return await self._direct.bind(bindings, fence, traceparent)
        return api_pb2.BatchResponse.FromString(answer).results

    def _next(self) -> NamedActor | None:
        ready = [actor for actor in self._actors if actor.ready]
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None
