"""Tables of a trace: CSV without a header, plain or gzipped, in one file or in parts."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from podsched.lib.files import open_file


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

    def number(self, place: int, missing: float = 0.0) -> float:
        """Return a field as a number, ``missing`` where it is empty. Raises BadTrace."""
        text = self.text(place)
        try:
            value = float(text) if text else missing
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BadTrace(f'{self._where}: field {place + 1}: "{text}" is not a number')
        return value


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
            opened = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            with io.TextIOWrapper(opened, encoding="utf-8", newline="") as text:
                yield from _rows_of(text, path)


def _rows_of(text: io.TextIOWrapper, path: Path) -> Iterator[Row]:
    try:
        for number, fields in enumerate(csv.reader(text), start=1):
            if fields:
                yield Row(fields, f"{path}: line {number}")
    except (csv.Error, UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise BadTrace(f"{path}: {error}") from error
