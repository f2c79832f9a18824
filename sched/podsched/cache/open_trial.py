"""What other parts of the cache know of a trial (``trial.Trial``)."""

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
        """Make the change; return False, without any effect, when it is not possible any more."""
        ...

    def undo(self) -> None: ...


class OpenTrial(Protocol):
    """The innermost trial that is open."""

    def beneath(self, key: ObjectKey, apply: Callable[[], Applied]) -> Applied:
        """Apply an event about an object as if no open trial had changed it."""
        ...

    def make(self, change: TrialChange) -> None:
        """Make a change, to be undone with the trial."""
        ...
