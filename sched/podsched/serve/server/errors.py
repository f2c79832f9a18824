"""Makes the errors of the API, with status code, reason and message.

    ApiError             code is a gRPC status, reason for programs, message for people
    ├── not_found        NOT_FOUND            NOT_FOUND
    ├── already_exists   ALREADY_EXISTS       ALREADY_EXISTS
    ├── conflict         ABORTED              CONFLICT              read again and retry
    ├── overtaken        ABORTED              CONFLICT              decide again on newer state
    ├── precondition     ABORTED              PRECONDITION_FAILED   another uid or resourceVersion
    ├── invalid          INVALID_ARGUMENT     INVALID               with every mistake
    ├── bad_request      INVALID_ARGUMENT     BAD_REQUEST
    ├── unknown_method   UNIMPLEMENTED        BAD_REQUEST
    ├── forbidden        PERMISSION_DENIED    FORBIDDEN
    ├── unauthenticated  UNAUTHENTICATED      UNAUTHORIZED
    ├── fence_lost       FAILED_PRECONDITION  FENCE_LOST            the term is over: stop leading
    ├── not_bindable     FAILED_PRECONDITION  ALREADY_BOUND, POD_DELETING, SCHEDULING_GATED
    ├── budget           RESOURCE_EXHAUSTED   DISRUPTION_BUDGET     try again later
    ├── too_large        RESOURCE_EXHAUSTED   TOO_LARGE
    ├── too_many_requests RESOURCE_EXHAUSTED  TOO_MANY_REQUESTS     try again after the time given
    ├── expired          OUT_OF_RANGE         COMPACTED             list again
    ├── unreadable       DATA_LOSS            STORE_READ_ERROR      the stored bytes are invalid
    └── unavailable      UNAVAILABLE          UNAVAILABLE, OUTCOME_UNKNOWN

Single calls raise them; batches return them as outcomes of the failed items. The messages are
Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple, ParamSpec, TypeVar

from podsched.api.field_errors import FieldError
from podsched.api.field_errors import invalid as field_error
from podsched.api.kinds import KINDS, Kind
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.store import errors as store_errors

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Max violations reported for one object: 100,000 of them would make an answer of 100 MB.
MAX_VIOLATIONS: Final = 100


class Violation(NamedTuple):
    """One mistake: its path, what is wrong, and the kind of mistake ("Required value", ...)."""

    field: str
    description: str
    reason: str = ""

    @classmethod
    def of(cls, error: FieldError) -> Violation:
        """Convert a field error of the api layer."""
        return cls(error.path, str(error).removeprefix(f"{error.path}: "), error.type.value)


class ApiError(Exception):
    """A refused or failed request, as the client sees it."""

    def __init__(
        self,
        code: StatusCode,
        reason: StatusReason,
        message: str,
        *,
        violations: Sequence[Violation] = (),
        metadata: Mapping[str, str] | None = None,
        retry_after: float = 0.0,
        about: tuple[Kind, str] | None = None,
    ) -> None:
        """Create an error.

        violations: the mistakes in an invalid request. metadata: details for programs, by the
        reason. retry_after: seconds after which the same call may succeed; 0: unknown. about: kind
        and name of the object concerned.
        """
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after
        self.about = about


def named(kind: Kind, name: str) -> str:
    """Return an object's name in messages: pods "web-1"."""
    return f'{kind.resource} "{name}"'


def not_found(kind: Kind, name: str) -> ApiError:
    """Make the error for an object that does not exist."""
    message = f"{named(kind, name)} not found"
    return ApiError(StatusCode.NOT_FOUND, StatusReason.NOT_FOUND, message, about=(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    """Make the error for a name that is taken."""
    message = f"{named(kind, name)} already exists"
    return ApiError(
        StatusCode.ALREADY_EXISTS, StatusReason.ALREADY_EXISTS, message, about=(kind, name)
    )


def conflict(kind: Kind, name: str, why: str = "") -> ApiError:
    """Make the error for an object that has changed since the writer read it."""
    why = why or (
        "the object has been modified; "
        "please apply your changes to the latest version and try again"
    )
    return _cannot_be_fulfilled(StatusCode.ABORTED, StatusReason.CONFLICT, kind, name, why)


def overtaken(node: str, why: str, revision: int) -> ApiError:
    """Make the error for a binding decided before another scheduler bound a pod to its node.

    revision: the least revision on which the scheduler must base its next decision.
    """
    error = conflict(KINDS["Node"], node, f"{why} since the pod was decided on")
    error.metadata["revision"] = str(revision)
    return error


def precondition(kind: Kind, name: str, what: str, wanted: str, actual: str) -> ApiError:
    """Make the error for an object whose uid or resourceVersion differs from a precondition."""
    why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
    reason = StatusReason.PRECONDITION_FAILED
    error = _cannot_be_fulfilled(StatusCode.ABORTED, reason, kind, name, why)
    error.metadata.update(what=what, wanted=wanted, actual=actual)
    return error


def invalid(kind: Kind, name: str, violations: Sequence[Violation]) -> ApiError:
    """Make the error for an invalid object; it lists the first MAX_VIOLATIONS violations."""
    listed_violations = violations[:MAX_VIOLATIONS]
    texts = [f"{v.field}: {v.description}" if v.field else v.description for v in listed_violations]
    if len(listed_violations) < len(violations):
        texts.append("and more")
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return ApiError(
        StatusCode.INVALID_ARGUMENT,
        StatusReason.INVALID,
        f'{shown} "{name}" is invalid: {listed}',
        violations=listed_violations,
        about=(kind, name),
    )


def invalid_fields(kind: Kind, name: str, found: Sequence[FieldError]) -> ApiError:
    """Make the error for an object with validation errors."""
    # One more than reported, so that ``invalid`` detects that there are more.
    return invalid(kind, name, [Violation.of(error) for error in found[: MAX_VIOLATIONS + 1]])


def immutable(kind: Kind, name: str, field: str, value: str) -> ApiError:
    """Make the error for another value of a field that never changes."""
    return invalid_fields(kind, name, [field_error(field, value, "field is immutable")])


def bad_request(message: str, field: str = "") -> ApiError:
    """Make the error for a request that is invalid regardless of the stored objects."""
    violations = [Violation(field, message)] if field else []
    return ApiError(
        StatusCode.INVALID_ARGUMENT, StatusReason.BAD_REQUEST, message, violations=violations
    )


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """Make the error for a request that a policy forbids."""
    what = named(kind, name) if name else kind.resource
    error = not_permitted(f"{what} is forbidden: {why}")
    error.about = (kind, name)
    return error


def not_permitted(message: str) -> ApiError:
    """Make the error for a request that roles or policies forbid, with its own message."""
    return ApiError(StatusCode.PERMISSION_DENIED, StatusReason.FORBIDDEN, message)


def unauthenticated(why: str) -> ApiError:
    """Make the error for a caller that is not authenticated."""
    return ApiError(StatusCode.UNAUTHENTICATED, StatusReason.UNAUTHORIZED, f"Unauthorized: {why}")


def fence_lost(lock: str, term: int) -> ApiError:
    """Make the error for a writer whose term is over."""
    return ApiError(
        StatusCode.FAILED_PRECONDITION,
        StatusReason.FENCE_LOST,
        f'the lock "{lock}" no longer belongs to term {term}: nothing was written',
        metadata={"lock": lock, "term": str(term)},
    )


def already_bound(kind: Kind, name: str, node: str) -> ApiError:
    """Make the error for a pod that already has a node."""
    why = f'is already assigned to node "{node}"'
    error = not_bindable(kind, name, StatusReason.ALREADY_BOUND, why)
    error.metadata["node"] = node
    return error


def not_bindable(kind: Kind, name: str, reason: StatusReason, why: str) -> ApiError:
    """Make the error for a pod whose state forbids a binding."""
    code = StatusCode.FAILED_PRECONDITION
    return _cannot_be_fulfilled(code, reason, kind, name, f"pod {name} {why}")


def too_large(message: str) -> ApiError:
    """Make the error for a request or object that exceeds a size limit."""
    return ApiError(StatusCode.RESOURCE_EXHAUSTED, StatusReason.TOO_LARGE, message)


def too_many_requests(cause: str, retry_after: float) -> ApiError:
    """Make the error for a client that exceeds a rate or share; nothing was done."""
    return ApiError(
        StatusCode.RESOURCE_EXHAUSTED,
        StatusReason.TOO_MANY_REQUESTS,
        f"too many requests: {cause}; try again after {retry_after:g} s",
        retry_after=retry_after,
    )


def budget(budget_name: str, cause: str) -> ApiError:
    """Make the error for an eviction that a disruption budget does not permit yet."""
    return ApiError(
        StatusCode.RESOURCE_EXHAUSTED,
        StatusReason.DISRUPTION_BUDGET,
        f"Cannot evict pod as it would violate the pod's disruption budget. {cause}".rstrip(),
        metadata={"budget": budget_name},
    )


def expired(message: str, *, asked: int = 0, oldest: int = 0) -> ApiError:
    """Make the error for a compacted revision, or for a client that does not read or has gone.

    asked, oldest: the requested revision and the oldest one, 0 if unknown.
    """
    return ApiError(
        StatusCode.OUT_OF_RANGE,
        StatusReason.COMPACTED,
        f"{message}: list again",
        metadata={"asked": str(asked), "oldest": str(oldest)},
    )


def unreadable(kind: Kind, name: str) -> ApiError:
    """Make the error for stored bytes that do not decode to the object of their key."""
    message = (
        f"what is stored of {named(kind, name)} cannot be read; it can be deleted, without a uid"
    )
    return ApiError(StatusCode.DATA_LOSS, StatusReason.STORE_READ_ERROR, message)


def starting() -> ApiError:
    """Make the error of a server that has not loaded roles and bindings yet."""
    message = "the server is starting: roles and bindings are not loaded"
    return ApiError(StatusCode.UNAVAILABLE, StatusReason.UNAVAILABLE, message)


def unknown_method() -> ApiError:
    """Make the error for an unknown method, with gRPC's message."""
    return ApiError(StatusCode.UNIMPLEMENTED, StatusReason.BAD_REQUEST, "Method not found!")


def shutting_down() -> ApiError:
    """Make the error on which clients switch to another server, or retry this one."""
    message = "the server is shutting down"
    return ApiError(StatusCode.UNAVAILABLE, StatusReason.SHUTTING_DOWN, message)


def internal(incident: str) -> ApiError:
    """Make the error for a bug; the log has the traceback under the same incident id."""
    return ApiError(
        StatusCode.INTERNAL,
        StatusReason.INTERNAL,
        f"internal error {incident}: the server's log has the details",
        metadata={"incident": incident},
    )


def of_store(error: store_errors.StoreError) -> ApiError:
    """Translate a store error."""
    if error.outcome_unknown:
        message = f"the outcome is unknown, read before trying again: {error}"
        return ApiError(StatusCode.UNAVAILABLE, StatusReason.OUTCOME_UNKNOWN, message)
    if isinstance(error, store_errors.Compacted):
        return expired("The provided continue parameter is too old")
    if isinstance(error, store_errors.TooLarge):
        return too_large(f"the object is too large for the store: {error}")
    if isinstance(error, store_errors.LeaseNotFound):
        message = f"the event's lease has ended: {error}"
        return ApiError(StatusCode.UNAVAILABLE, StatusReason.LEASE_NOT_FOUND, message)
    if isinstance(error, store_errors.NoSpace):
        message = f"the store is full: {error}"
        return ApiError(StatusCode.RESOURCE_EXHAUSTED, StatusReason.STORE_FULL, message)
    return unavailable(str(error))


def unavailable(cause: str) -> ApiError:
    """Make the error for a store that does not answer; nothing was done."""
    message = f"the store is unavailable: {cause}"
    return ApiError(StatusCode.UNAVAILABLE, StatusReason.UNAVAILABLE, message)


def overloaded(cause: str) -> ApiError:
    """Make the error of a server at its limit; another server may accept the call."""
    return ApiError(
        StatusCode.UNAVAILABLE, StatusReason.UNAVAILABLE, f"the server is overloaded: {cause}"
    )


def _cannot_be_fulfilled(
    code: StatusCode, reason: StatusReason, kind: Kind, name: str, why: str
) -> ApiError:
    message = f"Operation cannot be fulfilled on {named(kind, name)}: {why}"
    return ApiError(code, reason, message, about=(kind, name))


def attempted(make: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | ApiError:
    """Return what a function returns, or the ApiError that it raises."""
    try:
        return make(*args, **kwargs)
    except ApiError as error:
        return error


async def awaited(operation: Awaitable[_T]) -> _T | ApiError:
    """Return what an operation returns, or the ApiError that it raises."""
    try:
        return await operation
    except ApiError as error:
        return error
