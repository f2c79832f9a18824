"""The machine-readable part of what the API answers: a status code and a reason.

Single calls carry them as gRPC status and ``google.rpc.ErrorInfo.reason``, items of a batch as
``BatchResult.code`` and ``BatchResult.reason``. Server and clients spell them here only. Members
are plain numbers and strings to protobuf, so neither side converts.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class StatusCode(IntEnum):
    """gRPC's status codes by number, for code that must not import grpc."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StatusReason(StrEnum):
    """Why a request was refused or failed, as in Kubernetes' ``metav1.StatusReason``."""

    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    CONFLICT = "CONFLICT"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    INVALID = "INVALID"
    BAD_REQUEST = "BAD_REQUEST"
    FORBIDDEN = "FORBIDDEN"
    UNAUTHORIZED = "UNAUTHORIZED"
    FENCE_LOST = "FENCE_LOST"
    ALREADY_BOUND = "ALREADY_BOUND"
    POD_DELETING = "POD_DELETING"
    SCHEDULING_GATED = "SCHEDULING_GATED"
    DISRUPTION_BUDGET = "DISRUPTION_BUDGET"
    MULTIPLE_BUDGETS = "MULTIPLE_BUDGETS"
    TOO_LARGE = "TOO_LARGE"
    TOO_MANY_REQUESTS = "TOO_MANY_REQUESTS"
    STORE_FULL = "STORE_FULL"
    COMPACTED = "COMPACTED"
    UNAVAILABLE = "UNAVAILABLE"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    LEASE_NOT_FOUND = "LEASE_NOT_FOUND"
    STORE_READ_ERROR = "STORE_READ_ERROR"
    INTERNAL = "INTERNAL"
