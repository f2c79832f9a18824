"""The errors of allocating devices. That no devices fit is a result (None), not an error.

AllocationError            ends the scheduling attempt of the pod; retried with backoff
├── InvalidPools           rejects only this node: a driver published an invalid pool
└── AllocationAborted      the caller stopped the search before its end
"""

from __future__ import annotations


class AllocationError(Exception):
    """A claim, a class or a selector cannot be used."""


class InvalidPools(AllocationError):
    """No devices fit, and some pools of the node are invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class AllocationAborted(AllocationError):
    """The search was stopped, for instance by its deadline."""

    def __init__(self) -> None:
        super().__init__("filter operation aborted")
