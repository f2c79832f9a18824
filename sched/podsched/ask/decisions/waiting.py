"""Decisions that wait for their outcome, as rows of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsched.ask.decisions.rows import AGAIN, DECIDED, ENDED, MESSAGE, MORE, OUTCOME, UID


class WaitingRows:
    """The decisions without an outcome, some of which have been written without one."""

    def __init__(self, since_epoch: float = 0.0) -> None:
        #: Unix time less monotonic time, as of the last flush.
        self.since_epoch = since_epoch
        self._open: dict[str, list[Any]] = {}
        """By uid."""
        self._written_open: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    def wall(self, monotonic: float) -> float:
        """Return Unix seconds, to the microsecond."""
        return round(monotonic + self.since_epoch, 6)

    def decided(self, common: Sequence[Any], pods: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Add the decisions on a run of pods; return earlier ones of these pods, to be written."""
        done: list[list[Any]] = []
        profile, term, revision, rotation, draws, popped, decided, seconds = common
        together, since_epoch = len(pods), self.since_epoch
        popped, decided = self.wall(popped), self.wall(decided)
        for number, ns, name, uid, attempt, cls, evaluated, feasible, node, total, at, more in pods:
            before = self._open.pop(uid, None)
            if before is not None and uid not in self._written_open:
                done.append(before)
            self._written_open.discard(uid)
            self._open[uid] = [
                number, ns, name, uid, attempt, profile, cls, term, revision,
                evaluated, feasible, node, total, together, rotation, draws,
                round(at + since_epoch, 6), popped, decided, seconds, "", "", 0.0, more,
            ]  # fmt: skip
        return done

    def end(
        self, uid: str, outcome: str, message: str, ended: float, more: dict[str, Any] | None
    ) -> list[list[Any]]:
        """Note an outcome; return the decision, to be written, if it is known."""
        row = self._open.pop(uid, None)
        if row is None:
            return []
        row[OUTCOME], row[MESSAGE], row[ENDED] = outcome, message, ended
        if more:
            row[MORE] = {**(row[MORE] or {}), **more}
        if uid in self._written_open:
            self._written_open.discard(uid)
            row[MORE] = {**(row[MORE] or {}), AGAIN: True}
        return [row]

    def overdue(self, before: float) -> list[list[Any]]:
        """Return copies of open decisions that have waited long enough, each once."""
        overdue = [
            list(row)
            for uid, row in self._open.items()
            if row[DECIDED] <= before and uid not in self._written_open
        ]
        self._written_open.update(row[UID] for row in overdue)
        return overdue
