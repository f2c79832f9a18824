"""Translates a kube-apiserver's errors to ``ClientError``s.

The class depends on ``Status.reason``, or on the HTTP status if there is none (a proxy, plain
text). The error's ``http_status`` is the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from podsched.serve.client import errors
from podsched.serve.client.errors import ClientError, Violation

_BY_REASON: Final[Mapping[str, type[ClientError]]] = {
    "NotFound": errors.NotFound,
    "AlreadyExists": errors.AlreadyExists,
    "Conflict": errors.Conflict,
    "Invalid": errors.Invalid,
    "BadRequest": errors.Invalid,
    "Forbidden": errors.Forbidden,
    "Unauthorized": errors.Unauthorized,
    "Expired": errors.Compacted,
    "Gone": errors.Compacted,
    "RequestEntityTooLarge": errors.TooLarge,
    "TooManyRequests": errors.TooManyRequests,
    "Timeout": errors.OutcomeUnknown,
    "ServerTimeout": errors.Unavailable,
    "ServiceUnavailable": errors.Unavailable,
}
#: 502 and 504 come from proxies, which may have passed the request on.
_BY_STATUS: Final[Mapping[int, type[ClientError]]] = {
    400: errors.Invalid,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Invalid,
    409: errors.Conflict,
    410: errors.Compacted,
    413: errors.TooLarge,
    415: errors.Invalid,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    502: errors.OutcomeUnknown,
    503: errors.Unavailable,
    504: errors.OutcomeUnknown,
}
#: What kube-apiserver says if etcd may do a write after all; the last one if the connection broke.
#: The status is 500, without a reason. But of a binding, each error of the storage is a Conflict.
_ETCD_MAY_DO_IT: Final = (
    "etcdserver: request timed out",
    "etcdserver: leader changed",
    "rpc error: code = Unavailable",
)
#: Bytes that are shown of an answer that is no Status, such as a proxy's page.
_MAX_TEXT = 500


def error_of(code: int, raw: bytes, headers: Mapping[str, str] | None = None) -> ClientError:
    """Return the error for an answer with status 300 or above."""
    try:
        status = orjson.loads(raw)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = " ".join(raw[:_MAX_TEXT].decode(errors="replace").split())
        status = {"message": text or f"HTTP status {code}"}
    return error_of_status({**status, "code": code}, _seconds((headers or {}).get("Retry-After")))


def error_of_status(status: Mapping[str, Any], retry_after: float = 0.0) -> ClientError:
    """Return the error for a ``Status``, also of an ERROR event."""
    code, reason = int(status.get("code") or 0), str(status.get("reason") or "")
    details = status.get("details") or {}
    message = str(status.get("message") or reason or f"HTTP status {code}")
    cls = _BY_REASON.get(reason) or _BY_STATUS.get(code, errors.ServerBug)
    in_doubt = any(said in message for said in _ETCD_MAY_DO_IT)
    if in_doubt and cls in (errors.ServerBug, errors.Conflict):
        cls = errors.OutcomeUnknown
    error = cls(
        message,
        reason=reason,
        violations=[
            Violation(str(cause.get("field", "")), str(cause.get("message", "")))
            for cause in details.get("causes") or ()
        ],
        retry_after=retry_after or float(details.get("retryAfterSeconds") or 0),
    )
    error.http_status = code
    return error


def _seconds(text: str | None) -> float:
    """Return Retry-After in seconds; a date, which no API server sends, counts as one second."""
    if not text:
        return 0.0
    return float(text) if text.isascii() and text.isdigit() else 1.0
