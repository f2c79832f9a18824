"""Numbers that change when something does, and that come back when a trial is rolled back.

A version stands for a content: whoever kept a number and reads it again knows that nothing has
changed. All numbers of a cluster come from one sequence, and none is ever given out twice, so
that a version may also be put back: when a trial is rolled back, what only the trial changed has
its old content again, and gets its old number (``Versions.saved``). Whatever was computed before
the trial is still valid then. What was computed during the trial carries numbers that no content
will ever have again.
"""

from __future__ import annotations

from typing import Protocol


class Versioned(Protocol):
    """Something with a version, which ``Versions.change`` sets."""

    version: int


class Version:
    """A version of something that has no object of its own."""

    __slots__ = ("version",)

    def __init__(self, version: int = 0) -> None:
        self.version = version


class SavedVersions:
    """The versions that things had when a trial began, as far as they can be put back.

    Changes inside ``with saved:`` are the trial's own, all others somebody else's.
    """

    __slots__ = ("_before", "_began", "_outer", "_own")

    def __init__(self, began: int, outer: SavedVersions | None) -> None:
        self._began = began
        self._outer = outer
        #: None: changed by something else than the trial, or not there when it began.
        self._before: dict[Versioned, int | None] = {}
        #: How many ``with`` blocks are open.
        self._own = 0

    def __enter__(self) -> None:
        self._own += 1

    def __exit__(self, *_: object) -> None:
        self._own -= 1

    def note(self, one: Versioned) -> None:
        """Note that a thing is about to change."""
        if not self._own:
            self._before[one] = None
        elif one not in self._before:
            self._before[one] = one.version if one.version <= self._began else None

    def put_back(self) -> None:
        """Put back the versions of what only the trial changed, once that is undone."""
        for one, version in self._before.items():
            if version is not None:
                one.version = version
            elif self._outer is not None:
                self._outer._before[one] = None

    def hand_over(self) -> None:
        """Leave it to the outer trial, if there is one, to put the versions back."""
        if self._outer is None:
            return
        for one, version in self._before.items():
            if version is None:
                self._outer._before[one] = None
            else:
                self._outer._before.setdefault(one, version)


class Versions:
    """The sequence of versions of one cluster. ``tick`` is the last number that was given out."""

    __slots__ = ("saved", "tick")

    def __init__(self, tick: int = 0) -> None:
        self.tick = tick
        #: Of the innermost open trial.
        self.saved: SavedVersions | None = None

    def change(self, one: Versioned) -> None:
        """Give a thing that changes a new version."""
        self.tick += 1
        if self.saved is not None:
            self.saved.note(one)
        one.version = self.tick
