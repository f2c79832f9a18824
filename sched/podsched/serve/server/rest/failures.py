"""Converts an ``ApiError`` to a ``Status``, worded as in Kubernetes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsched.api.kinds import Kind
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server.errors import ApiError, Violation
from podsched.serve.server.rest.messages import TEXT, Answer, Request, encode
from podsched.serve.server.status import short

_HTTP: Final[Mapping[StatusReason, tuple[int, str]]] = {
    StatusReason.NOT_FOUND: (404, "NotFound"),
    StatusReason.ALREADY_EXISTS: (409, "AlreadyExists"),
    StatusReason.CONFLICT: (409, "Conflict"),
    StatusReason.PRECONDITION_FAILED: (409, "Conflict"),
    StatusReason.INVALID: (422, "Invalid"),
    StatusReason.BAD_REQUEST: (400, "BadRequest"),
    StatusReason.FORBIDDEN: (403, "Forbidden"),
    StatusReason.UNAUTHORIZED: (401, "Unauthorized"),
    StatusReason.FENCE_LOST: (409, "Conflict"),
    StatusReason.ALREADY_BOUND: (409, "Conflict"),
    StatusReason.POD_DELETING: (409, "Conflict"),
    StatusReason.SCHEDULING_GATED: (409, "Conflict"),
    StatusReason.DISRUPTION_BUDGET: (429, "TooManyRequests"),
    StatusReason.MULTIPLE_BUDGETS: (500, ""),
    StatusReason.TOO_LARGE: (413, "RequestEntityTooLarge"),
    StatusReason.TOO_MANY_REQUESTS: (429, "TooManyRequests"),
    StatusReason.STORE_FULL: (500, "InternalError"),
    StatusReason.COMPACTED: (410, "Expired"),
    StatusReason.UNAVAILABLE: (503, "ServiceUnavailable"),
    StatusReason.OUTCOME_UNKNOWN: (504, "Timeout"),
    StatusReason.SHUTTING_DOWN: (503, "ServiceUnavailable"),
    StatusReason.LEASE_NOT_FOUND: (503, "ServiceUnavailable"),
    StatusReason.STORE_READ_ERROR: (500, "StoreReadError"),
    StatusReason.INTERNAL: (500, "InternalError"),
}
_CAUSES: Final = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Forbidden": "FieldValueForbidden",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Internal error": "InternalError",
    "NamespaceTerminating": "NamespaceTerminating",
}
#: The ``Status`` of what has succeeded and answers with no object.
SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
#: Max bytes of a ``Status``: a refused client that does not read takes no more memory.
_MAX_BYTES: Final = 128 << 10
_CAUSE: Final = "disruption budget. "
_UNPROCESSED: Final = "still being processed"
#: Kubernetes' estimate of the seconds until a budget's controller has processed it.
_PROCESSED_AFTER: Final = 10
#: For these reasons ``details.kind`` is the kind and not the resource.
_BY_KIND: Final = frozenset({StatusReason.INVALID, StatusReason.PRECONDITION_FAILED})


class RestError(ApiError):
    """A failure that only the REST API has, with its own ``Status``."""

    def __init__(
        self,
        http: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        code: StatusCode = StatusCode.INVALID_ARGUMENT,
    ) -> None:
        super().__init__(code, StatusReason.BAD_REQUEST, message)
        self.http = http
        self.reason_text = reason
        self.details = details
        self.list_metadata: dict[str, str] = {}


def failed_options(kind: str, *violations: Violation) -> RestError:
    """Make the error for invalid options in a query; kind: "ListOptions", ..."""
    texts = [f"{v.field}: {v.description}" for v in violations]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {"group": "meta.k8s.io", "kind": kind, "causes": causes_of(violations)}
    return RestError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {listed}', details)


def failed_option(kind: str, field: str, reason: str, text: str) -> RestError:
    """Make the error for one invalid option; reason: "Forbidden", ..."""
    return failed_options(kind, Violation(field, f"{reason}: {text}", reason))


def invalid_patch(why: object) -> RestError:
    """Make the error for a patch that cannot be applied, or whose result cannot be decoded."""
    found = Violation("patch", f"Invalid value: {why}", "Invalid value")
    message = f' "" is invalid: patch: {found.description}'
    return RestError(422, "Invalid", message, {"causes": causes_of([found])})


def no_such_resource() -> RestError:
    """Make the error for an unknown path within a known group."""
    message = "the server could not find the requested resource"
    return RestError(404, "NotFound", message, {}, code=StatusCode.NOT_FOUND)


def unavailable(message: str) -> RestError:
    """Make the error for a kubelet, or what runs there, that does not answer."""
    return RestError(503, "ServiceUnavailable", message, code=StatusCode.UNAVAILABLE)


def method_not_allowed() -> RestError:
    """Make the error for an HTTP method that a path does not support."""
    message = "the server does not allow this method on the requested resource"
    return RestError(405, "MethodNotAllowed", message, {}, code=StatusCode.UNIMPLEMENTED)


def check_method(request: Request, *methods: str) -> None:
    """Raise RestError 405 for an HTTP method that is not among these."""
    if request.method not in methods:
        raise method_not_allowed()


def page_not_found() -> Answer:
    """Return the answer for an unknown path: plain text, not a ``Status``."""
    return Answer(b"404 page not found\n", 404, TEXT)


def bad_request(message: str) -> RestError:
    """Make the error for a malformed request."""
    return RestError(400, "BadRequest", message)


def expired(message: str) -> RestError:
    """Make the error for a resourceVersion that has been compacted."""
    return RestError(410, "Expired", message, code=StatusCode.OUT_OF_RANGE)


def causes_of(violations: Sequence[Violation]) -> list[dict[str, str]]:
    """Convert violations to ``StatusCause``."""
    return [
        {
            "reason": _CAUSES.get(v.reason, "FieldValueInvalid"),
            "message": v.description,
            "field": v.field,
        }
        for v in violations
    ]


def status_of(error: ApiError) -> dict[str, Any]:
    """Return the ``Status`` of an error."""
    http, reason = _HTTP[error.reason]
    message, details = error.message, _details(error)
    if isinstance(error, RestError):
        found = status(error.http, error.reason_text, message, error.details)
        return {**found, "metadata": error.list_metadata}
    if error.reason is StatusReason.DISRUPTION_BUDGET:
        message = error.message.partition(_CAUSE)[0] + _CAUSE.rstrip()
    elif error.reason is StatusReason.UNAUTHORIZED:
        # Only the log says why: an attacker guessing tokens must not learn how close a guess was.
        message, details = "Unauthorized", None
    return status(http, reason, message, details)


def status(
    http: int, reason: str, message: str, details: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a ``Status`` for a failure."""
    found: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": http,
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _details(error: ApiError) -> dict[str, Any] | None:
    details: dict[str, Any] = {}
    if error.about is not None:
        details = about(*error.about, by_kind=error.reason in _BY_KIND)
    if error.reason is StatusReason.INVALID or (error.violations and details):
        details["causes"] = causes_of(error.violations)
    if error.reason is StatusReason.DISRUPTION_BUDGET:
        cause = error.message.partition(_CAUSE)[2]
        details["causes"] = [{"reason": "DisruptionBudget", "message": cause}]
        if _UNPROCESSED in cause:
            error.retry_after = _PROCESSED_AFTER
    if error.retry_after:
        details["retryAfterSeconds"] = math.ceil(error.retry_after)
    if error.reason is StatusReason.FORBIDDEN:
        return details
    return details or None


def about(kind: Kind, name: str, *, by_kind: bool = False) -> dict[str, Any]:
    """Return the ``details`` that name an object."""
    found = {"name": name, "group": kind.group, "kind": kind.name if by_kind else kind.plural}
    return {key: value for key, value in found.items() if value}


def failure(error: ApiError) -> Answer:
    """Return the answer for an error; of a very long one only the beginning of its message."""
    body = status_of(error)
    encoded = encode(body)
    if len(encoded) > _MAX_BYTES:
        encoded = encode({**body, "message": short(body["message"]), "details": {}})
    headers = {"Retry-After": str(math.ceil(error.retry_after))} if error.retry_after else {}
    return Answer(encoded, int(body["code"]), headers=headers)
