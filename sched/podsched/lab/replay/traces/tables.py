"""Tables of a trace: CSV without a header, plain or gzipped, in one file or in parts."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from podsched.lib.bounded_text import Lines, bounded_lines
from podsched.lib.files import open_file

#: Of what a row says: no machine has as many cores, or a task as many instances.
MOST: Final = 1e6
#: Of a time: 2^63 - 1 microseconds stand for after the end of Google's trace.
LATEST: Final = 2.0**63
_MOST_LINE: Final = 1 << 20


class BadTrace(ValueError):
    """A table of a trace is missing, or has a row that does not fit its format."""


class Row:
    """One row, whose fields are read by their place, from 0."""

    __slots__ = ("_fields", "_where")

    def __init__(self, fields: Sequence[str], where: str) -> None:
        self._fields = fields
        self._where = where

    def text(self, place: int) -> str:
        """Return a field. Raises BadTrace where the row is shorter."""
        if place >= len(self._fields):
            count = len(self._fields)
            raise BadTrace(f"{self._where}: {count} fields, of which number {place + 1} is wanted")
        return self._fields[place].strip()

    def number(self, place: int, missing: float = 0.0, *, most: float = MOST) -> float:
        """Return a field as a number, ``missing`` where it is empty. Raises BadTrace."""
        text = self.text(place)
        try:
            value = float(text) if text else missing
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BadTrace(f'{self._where}: field {place + 1}: "{text}" is not a number')
        if abs(value) > most:
            raise BadTrace(f"{self._where}: field {place + 1}: {value:g} is more than {most:g}")
        return value

    def amount(self, place: int) -> float:
        """Return a field as a number of at least 0. Raises BadTrace."""
        value = self.number(place)
        if value < 0:
            raise BadTrace(f"{self._where}: field {place + 1}: {value:g} is negative")
        return value

    def time(self, place: int) -> float:
        """Return a field as a time, of any unit. Raises BadTrace."""
        return self.number(place, most=LATEST)


def rows(directory: Path, table: str) -> Iterator[Row]:
    """Yield the rows of a table; of one in parts (``table/*.csv.gz``) in the order of their names.

    Raises BadTrace or OSError.
    """
    whole = [directory / f"{table}{end}" for end in (".csv", ".csv.gz")]
    files = [path for path in whole if path.is_file()]
    files = files or sorted((directory / table).glob("*.csv*"))
    if not files:
        raise BadTrace(f"{directory}: neither {table}.csv, {table}.csv.gz nor {table}/*.csv.gz")
    for path in files:
        with open_file(path) as raw:
            yield from _rows_of(gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw, path)


def _rows_of(file: Lines, path: Path) -> Iterator[Row]:
    reader = csv.reader(line.decode() for line in bounded_lines(file, _MOST_LINE))
    while True:
        try:
            fields = next(reader, None)
        except (csv.Error, ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadTrace(f"{path}: line {reader.line_num + 1}: {error}") from error
        if fields is None:
            return
        if fields:
            yield Row(fields, f"{path}: line {reader.line_num}")
