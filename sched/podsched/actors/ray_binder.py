"""Binding through binder actors, or directly while none is ready."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.actors.named_actor import NamedActor
from podsched.actors.ray_cluster import RayUnavailable
from podsched.term.writes.bind_queue import Binder
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

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        """See ``Binder.bind_pods``."""
        answer = await self._ask(bindings, fence, traceparent)
        if answer is None:
            return await self._direct.bind_pods(bindings, fence=fence, traceparent=traceparent)
        return api_pb2.BatchResponse.FromString(answer).results

    async def _ask(
        self, bindings: Sequence[api_pb2.Binding], fence: api_pb2.Fence, traceparent: str
    ) -> bytes | None:
        """Return an actor's answer; None when there is none."""
        actor = self._next()
        if actor is None:
            return None
        request = api_pb2.BindPodsRequest(bindings=bindings, fence=fence).SerializeToString()
        try:
            answer = await actor.call("bind", request, traceparent, timeout=BIND_TIMEOUT)
        except RayUnavailable:
            return None
        # An actor that did not bind may be cut off from the API servers where this process is not.
        return answer if isinstance(answer, bytes) else None

    def _next(self) -> NamedActor | None:
        ready = [actor for actor in self._actors if actor.ready]
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None
