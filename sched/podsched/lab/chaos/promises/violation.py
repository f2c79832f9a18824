"""A promise that was broken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Where a history breaks a promise. ``keys``: of the objects that it is about."""

    promise: str
    text: str
    at: float
    revision: int = 0
    keys: tuple[str, ...] = ()
