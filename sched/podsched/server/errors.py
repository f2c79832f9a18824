"""What a request can be answered with instead of a result.

    ApiError             code is a gRPC status, reason for programs, message for people
    ├── not_found        NOT_FOUND            NOT_FOUND
    ├── already_exists   ALREADY_EXISTS       ALREADY_EXISTS
    ├── conflict         ABORTED              CONFLICT              read again and retry
    ├── precondition     ABORTED              PRECONDITION_FAILED   another uid or resourceVersion
    ├── invalid          INVALID_ARGUMENT     INVALID               with every mistake
    ├── bad_request      INVALID_ARGUMENT     BAD_REQUEST
    ├── forbidden        PERMISSION_DENIED    FORBIDDEN
    ├── fence_lost       FAILED_PRECONDITION  FENCE_LOST            the term is over: stop leading
    ├── not_bindable     FAILED_PRECONDITION  ALREADY_BOUND, POD_DELETING, SCHEDULING_GATED
    ├── budget           RESOURCE_EXHAUSTED   DISRUPTION_BUDGET     try again later
    ├── too_large        RESOURCE_EXHAUSTED   TOO_LARGE
    ├── expired          OUT_OF_RANGE         COMPACTED             list again
    └── unavailable      UNAVAILABLE          UNAVAILABLE, OUTCOME_UNKNOWN

Single calls raise them, batches return them as entries: an item that fails is an outcome, not a
fault. The wording is Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from podsched.api.field_errors import FieldError
from podsched.api.kinds import Kind
from podsched.store import errors as store_errors

LEASE_NOT_FOUND = "LEASE_NOT_FOUND"


class Code(IntEnum):
    """The gRPC status codes in use, by number, as batches carry them."""

    OK = 0
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    INTERNAL = 13
    UNAVAILABLE = 14


class Violation(NamedTuple):
    """One mistake: its path, what is wrong, and the kind of mistake ("Required value", ...)."""

    field: str
    description: str
    reason: str = ""

    @classmethod
    def of(cls, error: FieldError) -> Violation:
        """Return a field error of the api layer."""
        return cls(error.path, str(error).removeprefix(f"{error.path}: "), error.type.value)


class ApiError(Exception):
    """A request that cannot be done, as the client is told."""

    def __init__(
        self,
        code: Code,
        reason: str,
        message: str,
        *,
        violations: Sequence[Violation] = (),
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.metadata = dict(metadata or {})


def resource(kind: Kind) -> str:
    """How messages call a kind: "pods", "poddisruptionbudgets.policy"."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def named(kind: Kind, name: str) -> str:
    """How messages call an object: pods "web-1"."""
    return f'{resource(kind)} "{name}"'


def not_found(kind: Kind, name: str) -> ApiError:
    """There is no such object."""
    return ApiError(Code.NOT_FOUND, "NOT_FOUND", f"{named(kind, name)} not found")


def already_exists(kind: Kind, name: str) -> ApiError:
    """There is an object of this name."""
    return ApiError(Code.ALREADY_EXISTS, "ALREADY_EXISTS", f"{named(kind, name)} already exists")


def conflict(kind: Kind, name: str, why: str = "") -> ApiError:
    """Return the object is not what the writer thinks it is."""
    why = why or (
        "the object has been modified; "
        "please apply your changes to the latest version and try again"
    )
    return ApiError(
        Code.ABORTED, "CONFLICT", f"Operation cannot be fulfilled on {named(kind, name)}: {why}"
    )


def precondition(kind: Kind, name: str, what: str, wanted: str, actual: str) -> ApiError:
    """Return the object is not the one that was asked for."""
    why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
    error = conflict(kind, name, why)
    error.reason = "PRECONDITION_FAILED"
    return error


def invalid(kind: Kind, name: str, violations: Sequence[Violation]) -> ApiError:
    """Return the object has mistakes; all are told."""
    texts = [f"{v.field}: {v.description}" if v.field else v.description for v in violations]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    shown = f"{kind.name}.{kind.group}" if kind.group else kind.name
    return ApiError(
        Code.INVALID_ARGUMENT,
        "INVALID",
        f'{shown} "{name}" is invalid: {listed}',
        violations=violations,
    )


def bad_request(message: str, field: str = "") -> ApiError:
    """Return the request makes no sense, whatever is stored."""
    violations = [Violation(field, message)] if field else []
    return ApiError(Code.INVALID_ARGUMENT, "BAD_REQUEST", message, violations=violations)


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """Policy does not permit it."""
    return ApiError(Code.PERMISSION_DENIED, "FORBIDDEN", f"{named(kind, name)} is forbidden: {why}")


def fence_lost(lock: str, term: int) -> ApiError:
    """Return the writer no longer leads."""
    return ApiError(
        Code.FAILED_PRECONDITION,
        "FENCE_LOST",
        f'the lock "{lock}" no longer belongs to term {term}: nothing was written',
        metadata={"lock": lock, "term": str(term)},
    )


def already_bound(kind: Kind, name: str, node: str) -> ApiError:
    """Return the pod has a node."""
    return ApiError(
        Code.FAILED_PRECONDITION,
        "ALREADY_BOUND",
        f"Operation cannot be fulfilled on {named(kind, name)}: pod {name} is already assigned to "
        f'node "{node}"',
        metadata={"node": node},
    )


def not_bindable(kind: Kind, name: str, reason: str, why: str) -> ApiError:
    """Return the pod is in no state to be bound."""
    message = f"Operation cannot be fulfilled on {named(kind, name)}: pod {name} {why}"
    return ApiError(Code.FAILED_PRECONDITION, reason, message)


def too_large(message: str) -> ApiError:
    """More than the server takes."""
    return ApiError(Code.RESOURCE_EXHAUSTED, "TOO_LARGE", message)


def budget(budget_name: str, cause: str) -> ApiError:
    """Return a disruption budget does not permit the eviction now."""
    return ApiError(
        Code.RESOURCE_EXHAUSTED,
        "DISRUPTION_BUDGET",
        f"Cannot evict pod as it would violate the pod's disruption budget. {cause}".rstrip(),
        metadata={"budget": budget_name},
    )


def expired(message: str) -> ApiError:
    """Return the history asked for is gone."""
    return ApiError(Code.OUT_OF_RANGE, "COMPACTED", f"{message}: list again")


def shutting_down() -> ApiError:
    """Another server, or this one when it is back, will go on."""
    return ApiError(Code.UNAVAILABLE, "SHUTTING_DOWN", "the server is shutting down")


def internal(incident: str) -> ApiError:
    """Return a bug; the log has the story under this id."""
    return ApiError(
        Code.INTERNAL,
        "INTERNAL",
        f"internal error {incident}: the server's log has the details",
        metadata={"incident": incident},
    )


def of_store(error: store_errors.StoreError) -> ApiError:
    """Return a fault of the store as clients see it."""
    if error.outcome_unknown:
        message = f"the outcome is unknown, read before trying again: {error}"
        return ApiError(Code.UNAVAILABLE, "OUTCOME_UNKNOWN", message)
    if isinstance(error, store_errors.Compacted):
        return expired("The provided continue parameter is too old")
    if isinstance(error, store_errors.TooLarge):
        return too_large(f"the object is too large for the store: {error}")
    if isinstance(error, store_errors.LeaseNotFound):
        return ApiError(Code.UNAVAILABLE, LEASE_NOT_FOUND, f"the event's lease has ended: {error}")
    if isinstance(error, store_errors.NoSpace):
        return ApiError(Code.RESOURCE_EXHAUSTED, "STORE_FULL", f"the store is full: {error}")
    return unavailable(str(error))


def unavailable(cause: str) -> ApiError:
    """Return the store does not answer; nothing was done."""
    return ApiError(Code.UNAVAILABLE, "UNAVAILABLE", f"the store is unavailable: {cause}")
