"""Bind pods through actors with connections to the API servers; directly while none is ready.

Protobuf messages cross Ray as bytes: objects of generated classes pickle slowly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from podsched.actors.named_actor import NamedActor
from podsched.actors.ray_cluster import LaterTerm, RayUnavailable
from podsched.actors.terms import Adoption, StaleTerm, TermGuard
from podsched.lib.certificate_error import CertificateError
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError
from podsched.term.writes.bind_queue import Binder
from podsched.v1 import api_pb2


@dataclass(frozen=True, slots=True)
class NotBound:
    """The call as a whole failed, or its outcome is unknown."""

    problem: str
    outcome_unknown: bool = False


@dataclass(frozen=True, slots=True)
class ApiServers:
    """The API servers through which a leader binds, and how to reach them."""

    endpoints: tuple[str, ...]
    options: ClientOptions | None = None


class BinderActor:
    """Binds pods through its own connection. Its methods run in the actor's event loop.

    The TLS files that ``ApiServers.options`` names are read where the actor runs.
    """

    def __init__(self, fingerprint: str) -> None:
        self._guard = TermGuard(fingerprint)
        self._servers = ApiServers(())
        self._client: ApiClient | None = None

    async def adopt(self, term: int, fingerprint: str, servers: ApiServers) -> Adoption:
        """Follow a term, and connect to its leader's API servers.

        The first batch of a term should not wait for a connection.
        """
        answer = self._guard.adopt(term, fingerprint)
        if answer is Adoption.ADOPTED and servers != self._servers:
            former, self._servers, self._client = self._client, servers, None
            with suppress(CertificateError):  # ``bind`` reports it.
                channels = self._connection().channels
                await channels.health(channels.endpoint, CONNECT_TIMEOUT)
            if former is not None:
                await former.close()
        return answer

    def _connection(self) -> ApiClient:
        """Return the client. Raises CertificateError."""
        if self._client is None:
            # Not created in the constructor, because a channel belongs to an event loop.
            self._client = ApiClient(self._servers.endpoints, self._servers.options)
        return self._client

    async def bind(
        self, term: int, request: bytes, traceparent: str
    ) -> bytes | NotBound | StaleTerm:
        """Make the call of a serialized BindPodsRequest; answer a serialized BatchResponse."""
        refusal = self._guard.refusal(term)
        if refusal is not None:
            return refusal
        message = api_pb2.BindPodsRequest.FromString(request)
        try:
            results = await self._connection().bind_pods(
                message.bindings, fence=message.fence, traceparent=traceparent
            )
        except CertificateError as exc:
            return NotBound(str(exc))
        except ClientError as exc:
            return NotBound(str(exc), exc.outcome_unknown)
        return api_pb2.BatchResponse(results=results).SerializeToString()


#: Max seconds in which an adopted actor connects before the leader uses it.
CONNECT_TIMEOUT = 1.0
#: Seconds after which a batch is also sent directly: a batch takes some 10 ms, and Ray notices the
#: death of its head or of an actor late. That is safe, because binding a pod again to the same node
#: succeeds.
PATIENCE = 0.2
#: Seconds after which an actor that does not answer is replaced. Longer, because the API servers
#: may be slow, too, for example while etcd elects a leader.
BIND_TIMEOUT = 5.0


class RayBinder:
    """``Binder`` that uses the actors in turn; if one fails, the batch is bound directly.

    An actor gets no batches while a call to it has taken longer than PATIENCE. Otherwise, until
    BIND_TIMEOUT ends that call, each batch would wait for PATIENCE, too.
    """

    def __init__(self, actors: Sequence[NamedActor], direct: Binder) -> None:
        self._actors = actors
        self._direct = direct
        self._turn = 0
        #: The calls that take longer than PATIENCE, until they end.
        self._overdue: dict[asyncio.Task[bytes | NotBound], NamedActor] = {}

    async def bind_pods(
        self, bindings: Sequence[api_pb2.Binding], *, fence: api_pb2.Fence, traceparent: str = ""
    ) -> Sequence[api_pb2.BatchResult]:
        in_doubt = False
        actor = self._next()
        if actor is not None:
            request = api_pb2.BindPodsRequest(bindings=bindings, fence=fence).SerializeToString()
            answer = await self._ask_for_a_while(actor, request, traceparent)
            if isinstance(answer, bytes):
                return api_pb2.BatchResponse.FromString(answer).results
            # Bind directly: maybe only the actor cannot reach the API servers.
            in_doubt = answer.outcome_unknown
        try:
            results = await self._direct.bind_pods(bindings, fence=fence, traceparent=traceparent)
        except ClientError as error:
            raise (errors.in_doubt(error) if in_doubt else error) from error.__cause__
        if in_doubt:
            errors.doubt_unavailable(results)
        return results

    async def _ask_for_a_while(
        self, actor: NamedActor, request: bytes, traceparent: str
    ) -> bytes | NotBound:
        """Return an actor's answer; NotBound after PATIENCE seconds, while the call goes on."""
        call = asyncio.create_task(self._ask(actor, request, traceparent), name="bind by an actor")
        try:
            await asyncio.wait({call}, timeout=PATIENCE)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if call.done():
            return call.result()
        self._overdue[call] = actor
        call.add_done_callback(self._overdue.pop)
        return NotBound("no answer yet", outcome_unknown=True)

    async def _ask(self, actor: NamedActor, request: bytes, traceparent: str) -> bytes | NotBound:
        """Return an actor's answer; NotBound if it failed."""
        try:
            answer: bytes | NotBound = await actor.call(
                "bind", request, traceparent, timeout=BIND_TIMEOUT
            )
        except LaterTerm as refusal:
            return NotBound(str(refusal))
        except RayUnavailable as failure:
            return NotBound(str(failure), outcome_unknown=True)
        return answer

    def _next(self) -> NamedActor | None:
        overdue = self._overdue.values()
        ready = [actor for actor in self._actors if actor.ready and actor not in overdue]
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None
