"""Lists that are sent once and then only where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Row = tuple[Any, ...]


class Difference(NamedTuple):
    """What makes one list another: rows that are new or changed, and keys that are gone."""

    set: list[list[Any]]
    gone: list[str]


class SentList:
    """The rows by key that the browsers have."""

    def __init__(self) -> None:
        self.rows: Mapping[str, Row] = {}

    def whole(self) -> list[list[Any]]:
        """Return all rows, each with its key first."""
        return [[key, *row] for key, row in self.rows.items()]

    def update(self, rows: Mapping[str, Row]) -> Difference | None:
        """Take over new rows; return how they differ, None if they do not."""
        before, self.rows = self.rows, rows
        changed = [[key, *row] for key, row in rows.items() if before.get(key) != row]
        gone = [key for key in before if key not in rows]
        return Difference(changed, gone) if changed or gone else None


class Dated(Protocol):
    """Something that happened at a time."""

    @property
    def at(self) -> float: ...


D = TypeVar("D", bound=Dated)


class Latest(Generic[D]):
    """What happened last, by key: ``count`` of it can be had.

    Four times as many are kept, so that those that are removed uncover older ones.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._rows: dict[str, D] = {}

    def put(self, key: str, row: D) -> None:
        """Add something, or change it."""
        self._rows[key] = row
        if len(self._rows) > 8 * self._count:
            self._rows = dict(self._first(4 * self._count))

    def remove(self, key: str) -> None:
        """Remove something, if it is there."""
        self._rows.pop(key, None)

    def newest(self) -> Iterable[tuple[str, D]]:
        """Return the latest, the very last first."""
        return self._first(self._count)

    def _first(self, count: int) -> list[tuple[str, D]]:
        return nlargest(count, self._rows.items(), key=lambda item: (item[1].at, item[0]))
