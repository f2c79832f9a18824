"""An actor that holds connections to the API servers and makes BindPods calls in batches.

Protobuf messages cross Ray as bytes: objects of generated classes pickle slowly.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsched.actors.terms import Adoption, StaleTerm, TermGuard
from podsched.lib.certificate_error import CertificateError
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError
from podsched.v1 import api_pb2


@dataclass(frozen=True, slots=True)
class NotBound:
    """The call as a whole failed, or its outcome is unknown."""

    problem: str


class BinderActor:
    """Binds through a connection of its own. Its methods run in the actor's event loop.

    The TLS files that ``options`` names are read where the actor runs.
    """

    def __init__(
        self, fingerprint: str, endpoints: tuple[str, ...], options: ClientOptions | None = None
    ) -> None:
        self._guard = TermGuard(fingerprint)
        self._endpoints = endpoints
        self._options = options
        self._client: ApiClient | None = None

    async def adopt(self, term: int, fingerprint: str) -> Adoption:
        return self._guard.adopt(term, fingerprint)

    async def bind(
        self, term: int, request: bytes, traceparent: str
    ) -> bytes | NotBound | StaleTerm:
        """Make the call of a serialized BindPodsRequest; answer a serialized BatchResponse."""
        refusal = self._guard.refusal(term)
        if refusal is not None:
            return refusal
        message = api_pb2.BindPodsRequest.FromString(request)
        try:
            if self._client is None:
                # Not in the constructor: a channel belongs to the event loop it is made in.
                self._client = ApiClient(self._endpoints, self._options)
            results = await self._client.bind_pods(
                message.bindings, fence=message.fence, traceparent=traceparent
            )
        except (ClientError, CertificateError) as exc:
            return NotBound(str(exc))
        return api_pb2.BatchResponse(results=results).SerializeToString()
