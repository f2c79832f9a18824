"""What may go wrong while devices are allocated; that they do not fit is no error.

AllocationError            ends the scheduling attempt of the pod; retried with backoff
├── InvalidPools           rules out this node only: a driver published a broken pool
└── AllocationAborted      the caller stopped the search before its end
"""

from __future__ import annotations


class AllocationError(Exception):
    """A claim, a class or a selector cannot be worked with."""


class InvalidPools(AllocationError):
    """No devices fit, and some pools of the node are invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class AllocationAborted(AllocationError):
    """The search was stopped, for instance by its deadline."""

    def __init__(self) -> None:
        super().__init__("filter operation aborted")
