"""Sets of completion indexes, in the format of a Job's status: 1,3-5,7. Pure.

Source: pkg/controller/job/indexed_job_utils.go of Kubernetes 1.36.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes as intervals (first, last), in order; no two overlap or touch."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        return cls(_joined((index, index) for index in sorted(set(indexes))))

    @classmethod
    def parse(cls, text: str, below: int) -> Indexes:
        """Return the indexes below a limit in a text; parts that are not indexes are left out."""
        found = []
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            begin = int32(first)
            end = int32(last) if dash else begin
            if begin is None or end is None:
                continue
            if begin >= below:
                break
            found.append((begin, min(end, below - 1)))
        return cls(_joined(found))

    def __str__(self) -> str:
        """Return the text of a status: intervals of three and more have a dash."""
        return ",".join(
            f"{first}" if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
            for first, last in self.intervals
        )

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __or__(self, other: Indexes) -> Indexes:
        if not other.intervals:
            return self
        return Indexes(_joined(sorted((*self.intervals, *other.intervals))))

    def __contains__(self, index: int) -> bool:
        # Not one by one: it is asked for each pod that has ended, and there may be 50,000.
        after = bisect_right(self.intervals, (index, inf))
        return after > 0 and index <= self.intervals[after - 1][1]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.intervals:
            yield from range(first, last + 1)

    def first_missing(self, count: int, below: int) -> list[int]:
        """Return the first indexes below a limit that are not in the set, at most ``count``."""
        found: list[int] = []
        candidate = 0
        for first, last in (*self.intervals, (below, below)):
            found += range(candidate, min(first, below, candidate + count - len(found)))
            if len(found) >= count:
                break
            candidate = last + 1
        return found

    def shared_with(self, other: Indexes) -> int:
        """Return how many indexes are in both."""
        mine, others = list(self.intervals[::-1]), list(other.intervals[::-1])
        shared = 0
        while mine and others:
            (first, last), (start, end) = mine[-1], others[-1]
            shared += max(0, min(last, end) - max(first, start) + 1)
            (mine if last <= end else others).pop()
        return shared


def int32(text: str) -> int | None:
    """Return the 32-bit integer that a text from a client is; None if it is none."""
    # The length first: Python refuses to read a number of thousands of digits.
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 11):
        return None
    number = int(text)
    return number if -(2**31) <= number < 2**31 else None


def _joined(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge intervals that overlap or touch; they are sorted by their first index."""
    found: list[tuple[int, int]] = []
    for first, last in intervals:
        if last < first:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)
