"""Translates the errors of gRPC and etcd to the store's exceptions.

etcd tells many errors apart only by their texts, so this searches for parts of these. No other
module reads codes or texts.
"""

from __future__ import annotations

import grpc

from podsched.serve.store.errors import (
    Compacted,
    InvalidRequest,
    LeaseNotFound,
    MaybeApplied,
    NoSpace,
    StoreError,
    TooLarge,
    Unauthorized,
    Unavailable,
)

Code = grpc.StatusCode

#: Errors after which a request was certainly not applied.
NOT_APPLIED = (
    "failed to connect to all addresses",  # gRPC: never left this process
    "etcdserver: no leader",  # refused before it was proposed
    "etcdserver: not capable",
    "etcdserver: too many requests",
)
FUTURE_REVISION = "required revision is a future revision"
STALE_TOKEN = ("invalid auth token", "revision of auth store is old")
#: of calls without a token
NO_USER = "user name is empty"
WRONG_CREDENTIALS = (
    "authentication failed",
    NO_USER,
    "user name not found",
    "auth: permission denied",  # of maintenance calls, which give it no code of its own
)
TOO_LARGE = ("request is too large", "too many operations", "larger than max")


def translate(error: grpc.aio.AioRpcError, *, safe: bool) -> StoreError:
    """Translate the error of a failed call.

    safe: the call changes nothing, so a lost answer leaves no unknown outcome.
    """
    code, details = error.code(), error.details() or ""
    text = f"etcd: {details} ({code.name})"
    # Texts come before codes: "too many requests" has the code of NoSpace, "no leader" that of a
    # lost answer, and "too many operations" that of InvalidRequest.
    if any(part in details for part in NOT_APPLIED):
        return Unavailable(text)
    if any(part in details for part in TOO_LARGE):
        return TooLarge(text)
    if code in (Code.PERMISSION_DENIED, Code.UNAUTHENTICATED) or any(
        part in details for part in WRONG_CREDENTIALS + STALE_TOKEN
    ):
        return Unauthorized(text)
    if code is Code.OUT_OF_RANGE and "compacted" in details:
        return Compacted()
    if code is Code.NOT_FOUND and "lease" in details:
        return LeaseNotFound(text)
    if code is Code.RESOURCE_EXHAUSTED:
        return NoSpace(text) if "space exceeded" in details else TooLarge(text)
    if code in (Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND, Code.UNIMPLEMENTED):
        return InvalidRequest(text)
    return Unavailable(text) if safe else MaybeApplied(text)


def is_stale_token(error: grpc.aio.AioRpcError) -> bool:
    """Return whether a new token may help.

    The token has expired, permissions have changed, or etcd has required none until now.
    """
    return any(part in (error.details() or "") for part in (*STALE_TOKEN, NO_USER))


def is_auth_disabled(error: grpc.aio.AioRpcError) -> bool:
    """Return whether etcd runs without authentication, so that credentials are not needed."""
    return "authentication is not enabled" in (error.details() or "")
