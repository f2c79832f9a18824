"""The client's exceptions; each class says who is at fault and whether to retry.

    ClientError
    ├── NotFound               the object does not exist
    ├── AlreadyExists          an object of this name exists
    ├── Conflict               the object has changed: read it again, then retry
    │   └── PreconditionFailed its uid or version is not the one that was named
    ├── Invalid                the request has mistakes, all in ``violations``: the caller
    ├── Forbidden              the caller's roles, or policy, do not permit it
    │   └── Unauthorized       the caller is not authenticated: certificate or token
    ├── FenceLost              the term is over: stop leading
    ├── AlreadyBound           the pod has a node, in ``node_name``
    ├── NotBindable            the pod is being deleted or has scheduling gates
    ├── DisruptionBudget       a budget does not permit the eviction now: retry later
    ├── TooLarge               more than the server takes: the caller must send less
    ├── Compacted              the history asked for is gone: list again
    ├── Unavailable            no server answers, or it cannot reach its store: retry
    │   ├── TooManyRequests    the caller exceeds its share: retry after ``retry_after``
    │   └── OutcomeUnknown     as before, but the write may have been done: read first
    ├── Unreadable             stored bytes or an answer cannot be decoded
    └── ServerBug              the server's log has the details under the id in the message

gRPC's errors never leave this package; they are the ``__cause__`` of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import grpc
from google.rpc import error_details_pb2, status_pb2

from podsched.api.reasons import StatusCode, StatusReason
from podsched.v1.api_pb2 import BatchResult

_DETAILS = "grpc-status-details-bin"


class Violation(NamedTuple):
    """One mistake: the path of the field and what is wrong with it."""

    field: str
    description: str


class ClientError(Exception):
    """A call did not succeed.

    reason: the server's machine-readable reason, "" without an answer. retryable: the same call may
    succeed later, after ``retry_after`` seconds if that is set. outcome_unknown: it may have been
    executed although it failed. request_id: its id in the server's audit log and traces.
    """

    retryable: ClassVar[bool] = False
    outcome_unknown: bool = False
    #: Status code of an HTTP answer; 0 without an answer, and over gRPC.
    http_status: int = 0

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        violations: Sequence[Violation] = (),
        node_name: str = "",
        retry_after: float = 0.0,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.violations = tuple(violations)
        self.node_name = node_name
        self.retry_after = retry_after
        self.request_id = request_id


class NotFound(ClientError):
    """The object does not exist."""


class AlreadyExists(ClientError):
    """An object of this name exists already."""


class Conflict(ClientError):
    """The object has been modified since it was read."""

    retryable = True


class PreconditionFailed(Conflict):
    """The object's uid or resourceVersion differs from the precondition."""

    retryable = False


class Invalid(ClientError):
    """The request has mistakes; all of them are in ``violations``."""


class Forbidden(ClientError):
    """The caller's roles, or a policy, do not permit the request."""


class Unauthorized(Forbidden):
    """The caller is not authenticated, or its credential has expired."""


class FenceLost(ClientError):
    """The lock belongs to another term; nothing was written."""


class AlreadyBound(ClientError):
    """The pod is bound, to ``node_name``."""


class NotBindable(ClientError):
    """The pod's state forbids a binding."""


class DisruptionBudget(ClientError):
    """A disruption budget does not permit the eviction now."""

    retryable = True


class TooLarge(ClientError):
    """The request exceeds the server's limit, or the store is full."""


class Compacted(ClientError):
    """The requested history is compacted."""


class Unavailable(ClientError):
    """No server answered, or it could not reach its store; nothing was done."""

    retryable = True


class TooManyRequests(Unavailable):
    """The server refuses the call because the client has too many; nothing was done."""


class OutcomeUnknown(Unavailable):
    """The answer was lost; the write may have been done."""

    outcome_unknown = True


class Unreadable(ClientError):
    """Stored bytes or an answer cannot be decoded."""


class ServerBug(ClientError):
    """The server failed because of a bug; its log has the details."""


_BY_REASON: dict[str, type[ClientError]] = {
    StatusReason.FENCE_LOST: FenceLost,
    StatusReason.ALREADY_BOUND: AlreadyBound,
    StatusReason.POD_DELETING: NotBindable,
    StatusReason.SCHEDULING_GATED: NotBindable,
    StatusReason.PRECONDITION_FAILED: PreconditionFailed,
    StatusReason.DISRUPTION_BUDGET: DisruptionBudget,
    StatusReason.OUTCOME_UNKNOWN: OutcomeUnknown,
    StatusReason.TOO_MANY_REQUESTS: TooManyRequests,
}
_BY_CODE: dict[int, type[ClientError]] = {
    StatusCode.NOT_FOUND: NotFound,
    StatusCode.ALREADY_EXISTS: AlreadyExists,
    StatusCode.ABORTED: Conflict,
    StatusCode.INVALID_ARGUMENT: Invalid,
    StatusCode.PERMISSION_DENIED: Forbidden,
    StatusCode.UNAUTHENTICATED: Unauthorized,
    StatusCode.RESOURCE_EXHAUSTED: TooLarge,
    StatusCode.OUT_OF_RANGE: Compacted,
    StatusCode.UNAVAILABLE: Unavailable,
    StatusCode.DATA_LOSS: Unreadable,
    StatusCode.INTERNAL: ServerBug,
    StatusCode.UNKNOWN: ServerBug,
    StatusCode.UNIMPLEMENTED: Invalid,
}


def of_result(result: BatchResult) -> ClientError | None:
    """Return the error of a batch's item; None if it succeeded."""
    if result.code == StatusCode.OK:
        return None
    cls = _BY_REASON.get(result.reason) or _BY_CODE.get(result.code, ClientError)
    return cls(
        result.message,
        reason=result.reason,
        violations=[Violation(v.field, v.description) for v in result.violations],
        node_name=result.node_name,
    )


def tells_nothing(error: ClientError | None) -> bool:
    """Return whether an error tells nothing of an earlier attempt, which may have been executed.

    An API server that has just started refuses rights that it has not loaded yet.
    """
    return isinstance(error, Unavailable | Forbidden | ServerBug)


def in_doubt(error: ClientError) -> ClientError:
    """Return the last error of a call of which an earlier attempt had an unknown outcome."""
    if not isinstance(error, Unavailable):
        error.outcome_unknown = True
        return error
    unknown = OutcomeUnknown(
        error.message,
        reason=error.reason,
        retry_after=error.retry_after,
        request_id=error.request_id,
    )
    unknown.http_status = error.http_status
    return unknown


def doubt_unavailable(results: Iterable[BatchResult]) -> None:
    """Give items that were not executed an unknown outcome: an earlier call had one."""
    for result in results:
        if isinstance(of_result(result), Unavailable):
            result.reason = StatusReason.OUTCOME_UNKNOWN


def raise_first(results: Iterable[BatchResult]) -> None:
    """Raise the first error of a batch's items."""
    for result in results:
        if (error := of_result(result)) is not None:
            raise error


def raise_if_fence_lost(results: Iterable[BatchResult | None]) -> None:
    """Raise FenceLost if a batch's item was refused because the term is over."""
    for result in results:
        if result is not None and result.reason == StatusReason.FENCE_LOST:
            raise FenceLost(result.message, reason=result.reason)


def raise_if_unavailable(results: Sequence[BatchResult]) -> None:
    """Raise Unavailable if no item of a batch was written, and some for that reason."""
    failures = [of_result(result) for result in results]
    away = next((one for one in failures if isinstance(one, Unavailable)), None)
    if away is not None and None not in failures:
        raise away


def as_result(error: ClientError) -> BatchResult:
    """Return the result of an item whose call failed as a whole; the inverse of ``of_result``."""
    codes = (code for code, cls in _BY_CODE.items() if isinstance(error, cls))
    reason = StatusReason.OUTCOME_UNKNOWN if isinstance(error, OutcomeUnknown) else error.reason
    return BatchResult(code=next(codes, StatusCode.UNKNOWN), reason=reason, message=error.message)


def of_rpc(error: Any) -> ClientError:
    """Translate a ``grpc.aio.AioRpcError``."""
    code: grpc.StatusCode = error.code()
    message: str = error.details() or code.name
    status = _status_of(error)
    if status is None:
        return _without_details(code, message)
    reason, node_name = "", ""
    violations: list[Violation] = []
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    retry, request = error_details_pb2.RetryInfo(), error_details_pb2.RequestInfo()
    for detail in status.details:
        if detail.Unpack(info):
            reason, node_name = info.reason, info.metadata.get("node", "")
        elif detail.Unpack(bad_request):
            violations = [Violation(v.field, v.description) for v in bad_request.field_violations]
        else:
            detail.Unpack(retry) or detail.Unpack(request)
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code.value[0], ClientError)
    return cls(
        message,
        reason=reason,
        violations=violations,
        node_name=node_name,
        retry_after=retry.retry_delay.ToTimedelta().total_seconds(),
        request_id=request.request_id,
    )


def _status_of(error: Any) -> Any:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            return status_pb2.Status.FromString(value)
    return None


#: Prefixes of gRPC's messages for calls that have not left this process.
_NOT_SENT = ("failed to connect", "errors resolving", "dns resolution failed")
#: HTTP/2's REFUSED_STREAM: a call beyond the server's limit, which was not executed. It happens if
#: many calls begin before a new connection knows the limit, or while many are cancelled.
_REFUSED = "rst_stream with error code 7"


def _without_details(code: grpc.StatusCode, message: str) -> ClientError:
    """Return the error for a status made by gRPC: the server may not have received the call."""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return OutcomeUnknown(f"the server did not answer in time: {message}")
    if code is grpc.StatusCode.CANCELLED:
        # By the server: a caller that cancels gets CancelledError.
        return OutcomeUnknown("the server broke the call off")
    if code is grpc.StatusCode.UNAVAILABLE:
        said = message.lower()
        if _REFUSED in said:
            # Such a server works well, so a client must not leave it for another one.
            reason = StatusReason.TOO_MANY_REQUESTS
            return TooManyRequests(f"too many calls on one connection: {message}", reason=reason)
        if not said.startswith(_NOT_SENT):
            return OutcomeUnknown(message)
    return _BY_CODE.get(code.value[0], ClientError)(message)
