"""Commit or roll back changes together, whatever they change; ``trial`` has the changes.

Events that the informer reports meanwhile are applied beneath.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from podsched.cache.cache import Cache
from podsched.cache.changes import Applied
from podsched.cache.open_trial import ObjectKey, TrialChange
from podsched.cache.trial_changes import Callback
from podsched.cache.versions import SavedVersions


class TrialError(Exception):
    """A trial was used after its end or while an inner one was open; the caller is at fault."""


class Transaction:
    """The beginning, the end and the nesting of a trial.

    Ends with ``commit``, with ``roll_back``, or at the end of its ``with`` block, which rolls back
    what was not committed.
    """

    def __init__(self, cache: Cache) -> None:
        """Begin a trial, as a part of the trial that is open."""
        outer = cache.cluster.open_trial
        assert outer is None or isinstance(outer, Transaction)
        cache.cluster.open_trial = self
        self._cache = cache
        self._outer = outer
        self._changes = _Changes()
        self._is_open = True
        versions = cache.columns.versions
        self._saved: SavedVersions = SavedVersions(versions.latest, outer._saved if outer else None)
        versions.saved = self._saved

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_open:
            self.roll_back()

    def on_undo(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` if the trial is rolled back, before earlier changes are undone."""
        self._check_use()
        self._changes.made.append(Callback(undo))

    def make(self, change: TrialChange) -> None:
        """Make a change that is undone if the trial is rolled back."""
        self._check_use()
        with self._saved:
            if change.do():
                self._changes.made.append(change)

    def _check_use(self) -> None:
        if not self._is_open or self._cache.cluster.open_trial is not self:
            raise TrialError("the trial has ended, or an inner one is open")

    # ------------------------------------------------------------------ the end

    def inner(self) -> Self:
        """Begin an inner trial."""
        self._check_use()
        return type(self)(self._cache)

    def commit(self) -> None:
        """Keep the changes, as a part of the outer trial if there is one."""
        self._check_use()
        self._saved.hand_over()
        if self._outer is not None:
            self._outer._changes.made += self._changes.made
        self._end()

    def undoing(self) -> Iterator[None]:
        """Undo the changes, the latest first, and yield after each; before a large rollback."""
        while self._changes.made:
            self._check_use()
            with self._saved:
                self._changes.pop().undo()
            yield

    def roll_back(self) -> None:
        """Undo the changes, the latest first."""
        self._check_use()
        with self._saved:
            for change in reversed(self._changes.made):
                change.undo()
        # After the changes are undone, because undoing them gives new versions, too.
        self._saved.put_back()
        self._end()

    def _end(self) -> None:
        self._is_open = False
        self._cache.cluster.open_trial = self._outer
        # The outer trial may still have to put back what it removed.
        if self._outer is None:
            self._cache.cluster.orders.clear()
            self._cache.nominator.orders.clear()
            # Not before: an outer rollback may bring removed nodes back, and readers that know
            # their rows stay right.
            self._cache.columns.node_table.free_kept_rows()
        self._cache.columns.versions.saved = self._outer._saved if self._outer else None

    # ------------------------------------------------------------------ events

    def apply_beneath(self, key: ObjectKey, apply: Callable[[], Applied]) -> Applied:
        """Apply an event about an object as if no open trial had changed the object."""
        set_aside = self._set_aside(key)
        try:
            # Outside of ``self._saved``: the event's own changes keep their new versions.
            return apply()
        finally:
            # In ``finally``, because an event that cannot be applied leaves the trial as it was.
            # The outermost trial's changes come first, as they did originally.
            with self._saved:
                for trial, changes in reversed(set_aside):
                    trial._changes.make_again(changes)

    def _set_aside(self, key: ObjectKey) -> list[tuple[Transaction, list[TrialChange]]]:
        """Undo the changes of an object in this trial and the outer ones, the latest first."""
        found = []
        trial: Transaction | None = self
        # ``self._saved``, not ``trial._saved``: versions are always saved in the innermost trial.
        with self._saved:
            while trial is not None:
                if changes := trial._changes.of(key):
                    found.append((trial, changes))
                    for change in reversed(changes):
                        change.undo()
                trial = trial._outer
        return found


class _Changes:
    """The changes of a trial in order, and by object once an event arrives."""

    __slots__ = ("_indexed", "_of_object", "made")

    def __init__(self) -> None:
        self.made: list[TrialChange] = []
        #: The first ``_indexed`` changes by object.
        self._of_object: dict[ObjectKey, list[TrialChange]] = {}
        self._indexed = 0

    def of(self, key: ObjectKey) -> list[TrialChange]:
        """Return the changes of an object."""
        while self._indexed < len(self.made):
            change = self.made[self._indexed]
            self._of_object.setdefault(change.key, []).append(change)
            self._indexed += 1
        return self._of_object.get(key, [])

    def pop(self) -> TrialChange:
        """Remove and return the latest change."""
        change = self.made.pop()
        if self._indexed > len(self.made):
            self._of_object[change.key].pop()
            self._indexed -= 1
        return change

    def make_again(self, changes: list[TrialChange]) -> None:
        """Make an object's changes again after ``of``, and drop the impossible ones."""
        for change in [change for change in list(changes) if not change.do()]:
            # Both by identity: changes are not comparable (``eq=False``).
            changes.remove(change)
            self.made.remove(change)
            # It was among the indexed changes, because ``of`` has indexed all.
            self._indexed -= 1
