"""The parts of a trial (``trial.Trial``) that other modules of the cache use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from podsched.cache.changes import Applied

#: Kind, namespace, name.
ObjectKey = tuple[str, str, str]


class TrialChange(Protocol):
    """One change of one object. ``do`` may be called again after ``undo``."""

    @property
    def key(self) -> ObjectKey: ...

    def do(self) -> bool:
        """Make the change; return False, without any effect, if it is no longer possible."""

    def undo(self) -> object: ...


class OpenTrial(Protocol):
    """The innermost open trial, as the modules below ``trial`` see it."""

    def apply_beneath(self, key: ObjectKey, apply: Callable[[], Applied]) -> Applied:
        """Apply an event about an object as if no open trial had changed the object."""

    def make(self, change: TrialChange) -> None:
        """Make a change that is undone if the trial is rolled back."""
