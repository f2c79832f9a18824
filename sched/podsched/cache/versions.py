"""Versions: numbers that change with their content and are restored when a trial is rolled back.

Equal versions mean equal content: a reader that reads the same number again knows that nothing has
changed, and may keep what it computed. All numbers of a cluster come from one sequence and are
never reused. So a rollback may restore a version: content that only the trial changed gets its old
number back (``Versions.saved``), and results computed before the trial are valid again. Results
computed during the trial carry numbers that no content will ever have again.

Without restored versions, trying the placements of a group of pods, each in a trial that is rolled
back, would make evaluations outdated that read nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Versioned(Protocol):
    """An object with a version, which ``Versions.change`` sets."""

    version: int


@dataclass(eq=False, slots=True)
class Version:
    """A version of something that is not one object, such as the labels of all nodes."""

    version: int = 0


class SavedVersions:
    """The versions at the beginning of a trial, as far as they can be restored.

    Changes inside ``with saved:`` are the trial's own; all other changes are not.
    """

    __slots__ = ("_before", "_began", "_outer", "_own")

    def __init__(self, began: int, outer: SavedVersions | None) -> None:
        self._began = began
        self._outer = outer
        #: The version of each changed object when the trial began. None, so that it is not
        #: restored: the object was also changed outside the trial, or created after it began.
        self._before: dict[Versioned, int | None] = {}
        #: How many ``with`` blocks are open.
        self._own = 0

    def __enter__(self) -> None:
        self._own += 1

    def __exit__(self, *_: object) -> None:
        self._own -= 1

    def note(self, one: Versioned) -> None:
        """Note that an object is about to change."""
        if not self._own:
            self._before[one] = None
        elif one not in self._before:
            self._before[one] = one.version if one.version <= self._began else None

    def put_back(self) -> None:
        """Restore the versions of objects that only the trial changed, after its rollback."""
        for one, version in self._before.items():
            if version is not None:
                one.version = version
            # An event changed it meanwhile, so the outer trial cannot restore it either.
            elif self._outer is not None:
                self._outer._before[one] = None

    def hand_over(self) -> None:
        """Let the outer trial, if any, restore the versions."""
        if self._outer is None:
            return
        for one, version in self._before.items():
            if version is None:
                self._outer._before[one] = None
            elif version <= self._outer._began:
                self._outer._before.setdefault(one, version)
            else:
                # It was created during the outer trial: its first content may be the trial's own.
                self._outer._before.setdefault(one, None)


class Versions:
    """The sequence of versions of one cluster. ``latest`` is the last number given out."""

    __slots__ = ("latest", "saved")

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        #: The saved versions of the innermost open trial; None while no trial is open.
        self.saved: SavedVersions | None = None

    def new(self) -> int:
        """Return a version that nothing had before, and that no trial restores."""
        self.latest += 1
        return self.latest

    def change(self, one: Versioned) -> None:
        """Give a changing object a new version."""
        self.latest += 1
        if self.saved is not None:
            self.saved.note(one)
        one.version = self.latest
