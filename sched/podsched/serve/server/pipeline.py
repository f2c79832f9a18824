"""Runs the steps that every call to the API has in common, through gRPC or Kubernetes' REST API.

    arrive    authenticate the caller and set its rights; refusals are delayed
    receive   read the request, within the limits of the caller's flow (``fairness.usage``)
    enter     wait for a seat (``fairness.gate``)
    ...       the handler
    exit      release the seat, convert errors to statuses, write audit event, metrics and trace

Each transport provides a ``CallContext`` and runs its handlers within a ``Call`` (an async context
manager). So authentication, fairness, metrics, traces and the audit log are the same for both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from podsched.api.reasons import StatusCode
from podsched.serve.server import errors
from podsched.serve.server.access.authentication import (
    Authenticator,
    CallContext,
    no_authentication,
)
from podsched.serve.server.access.identity import Identity, caller, set_caller
from podsched.serve.server.access.rights import UNRESTRICTED, Rights, rights, set_rights
from podsched.serve.server.audit.events import MAX_CONTENT, AuditedCall
from podsched.serve.server.call_warnings import collect_warnings
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.fairness.turns import ITEM_SECONDS
from podsched.serve.server.fairness.usage import CallUsage
from podsched.serve.server.methods import METHODS, OTHER
from podsched.serve.server.request_ids import request_id_of
from podsched.telemetry.logs import get_logger
from podsched.telemetry.tracing import NO_SPAN

if TYPE_CHECKING:
    from podsched.serve.server.audit.log import AuditLog
    from podsched.serve.server.call_metrics import ServerTelemetry

_log = get_logger("apiserver")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The configuration of the steps of every call.

    observer: metrics and traces, None for none. authenticate: returns the caller's identity.
    authorize: returns an identity's rights; handlers check them (``access.rights.rights()``) for
    each object that they read or write. gate: fairness, None for none. audit: None for no log.
    prepare: called before each call is handled, to bring up to date what its rights depend on.
    """

    observer: ServerTelemetry | None = None
    authenticate: Authenticator = no_authentication
    authorize: Callable[[Identity], Rights] = lambda _: UNRESTRICTED
    gate: Gate | None = None
    audit: AuditLog | None = None
    prepare: Callable[[Rights], Awaitable[None]] | None = None


class Call:
    """One call while it is handled: errors become statuses, and its end is recorded.

    identity: the caller, None until authenticated; request: the message, None until decoded.
    """

    __slots__ = (
        "_method",
        "_peer",
        "_pipeline",
        "_received",
        "_span",
        "_started",
        "context",
        "identity",
        "impersonated",
        "request",
        "request_id",
        "response",
        "uri",
        "usage",
        "warnings",
    )

    def __init__(
        self, method: str, context: CallContext, pipeline: Pipeline, uri: str = ""
    ) -> None:
        """Begin a call. method: the gRPC method; uri: of an HTTP request."""
        self._method = method
        self.uri = uri
        self.context: Any = context
        self._pipeline = pipeline
        self._started = time.monotonic()
        self._received = time.time() if pipeline.audit is not None else 0.0
        metadata = context.invocation_metadata() or ()
        self.request_id = request_id_of(metadata)
        observer = pipeline.observer
        self._span = NO_SPAN
        if observer is not None:
            self._span = observer.call_began(method, metadata, self._started)
        self.identity: Identity | None = None
        #: The user with whose rights the caller has asked to act.
        self.impersonated: Identity | None = None
        self.request: Any = None
        #: The response of a unary call, kept because observers read the outcomes of batches.
        self.response = b""
        #: What the call uses of its flow.
        self.usage = CallUsage(pipeline.gate, method)
        self._peer = ""
        #: Warnings of the handler, sent with the answer.
        self.warnings: Sequence[str] = ()

    @property
    def peer(self) -> str:
        """The client's address, kept because gRPC formats it at each access."""
        if not self._peer:
            self._peer = self.context.peer()
        return self._peer

    def authenticate(self) -> None:
        """Authenticate the caller and set the rights of this context. Raises ApiError."""
        identity = self._pipeline.authenticate(self.context)
        if identity.expires <= time.time():
            # Checked for each call, because a certificate is verified only in the TLS handshake and
            # may expire while the connection is open.
            raise errors.unauthenticated("the credential has expired")
        self.identity = identity
        set_caller(identity)
        set_rights(self._pipeline.authorize(identity))

    def act_as(self, identity: Identity) -> None:
        """Go on with the rights of another user; the limits are the caller's."""
        self.impersonated = identity
        set_caller(identity)
        set_rights(self._pipeline.authorize(identity))

    async def arrive(self) -> None:
        """Authenticate the caller; failures are answered at a limited rate. Raises ApiError.

        The limit slows down guessing of tokens, and clients that retry without a pause.
        """
        try:
            self.authenticate()
        except ApiError:
            if self._pipeline.gate is not None:
                await self._pipeline.gate.delay_refusal(self.peer)
            raise
        if self._pipeline.gate is not None and self.identity is not None:
            self.usage.arrive(self.identity, self.peer)

    async def enter(self, size: int) -> None:
        """Wait for a seat, which the call holds until it ends. Raises ApiError.

        size: bytes of the request.
        """
        await self.usage.enter(size)
        if self._pipeline.prepare is not None:
            await self._pipeline.prepare(rights())

    def charge_items(self) -> None:
        """Charge the flow for a batch whose items are not charged one by one."""
        field = METHODS.get(self._method, OTHER).items
        if field:
            self.usage.charge(len(getattr(self.request, field)) * ITEM_SECONDS)

    async def fail(self, error: ApiError) -> BaseException:
        """End the call with an error; return the exception to be raised by the transport's code."""
        return error

    async def __aenter__(self) -> Self:
        self.warnings = collect_warnings()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any
    ) -> None:
        """End the call: release its seat, send an error, and write audit event, metrics and trace.

        Errors that are not ApiErrors are bugs: they are logged, and the client gets an incident id.
        Cancellation passes unchanged.
        """
        code = _code_of(error)
        # Before the error is sent, which may wait for the client.
        self.usage.end()
        try:
            if isinstance(error, Exception):
                shown = error
                if not isinstance(shown, ApiError):
                    shown = _incident(self._method, error, self.request_id)
                raise await self.fail(shown) from None
        finally:
            if self._pipeline.audit is not None:
                self._audit(self._pipeline.audit, code, error)
            if (observer := self._pipeline.observer) is not None:
                about = (self._started, time.monotonic(), self._span, self.request_id)
                observer.call_ended(self._method, self.request, code.name, *about)
            # The exception may be part of a reference cycle, which must not keep large requests.
            self.request, self.response, self.context = None, b"", None
            if error is not None:
                error.__traceback__ = None
            del traceback

    def _audit(self, audit: AuditLog, code: StatusCode, error: BaseException | None) -> None:
        metadata = self.context.invocation_metadata() or ()
        audit.record(
            AuditedCall(
                method=self._method,
                request=self.request,
                response=self.response,
                identity=self.identity,
                impersonated=self.impersonated,
                peer=self.peer,
                user_agent=next((value for key, value in metadata if key == "user-agent"), ""),
                request_id=self.request_id,
                code=code,
                error=error if isinstance(error, ApiError) else None,
                uri=self.uri,
                body=getattr(self.context, "body", b"")[: MAX_CONTENT + 1],
                received=self._received,
                completed=self._received + time.monotonic() - self._started,
            )
        )


def _code_of(error: BaseException | None) -> StatusCode:
    if error is None:
        return StatusCode.OK
    if isinstance(error, ApiError):
        return error.code
    if isinstance(error, asyncio.CancelledError):
        return StatusCode.CANCELLED
    return StatusCode.INTERNAL


def _incident(method: str, error: Exception, incident: str) -> ApiError:
    """Log a bug with its traceback; return the error for the client, which has only the id."""
    user = caller()
    _log.error(
        "Internal error",
        incident=incident,
        method=method,
        user=user.user,
        authentication=user.how,
        exc_info=error,
    )
    return errors.internal(incident)
