"""Formats tables of objects, with the same columns as kubectl for kinds that kubectl knows."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from podsched.api.columns import NAME, Column, Show
from podsched.api.kinds import Kind
from podsched.lib.printable import printable_line

_GAP = "   "
#: Min width of a wrapped last column; with less, it starts on a line of its own.
_LEAST_WRAPPED = 24

#: Returns the cells of a node's columns below.
Usage = Callable[[Any], Sequence[str]]
_USED = ("CPU", "MEMORY", "PODS")
_NAMESPACE = Column("NAMESPACE", lambda o, _: o.metadata.namespace)


def _used(column: Column, usage: Usage) -> Column:
    if column.name not in _USED:
        return column
    at = _USED.index(column.name)
    return Column(column.name, lambda o, _: usage(o)[at])


def _cell(column: Column, obj: Any, now: float) -> str:
    value = column.cell(obj, now)
    return str(value).lower() if isinstance(value, bool) else str(value)


def aligned(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> list[str]:
    """Return the rows as lines with aligned columns, as kubectl prints them.

    Line breaks in cells are escaped. ``widths``: minimum widths of the columns; the last column is
    never padded.
    """
    rows = [[printable_line(cell) for cell in row] for row in rows]
    columns = max((len(row) for row in rows), default=0)
    least = [*widths, *[0] * columns]
    wide = [max(least[i], *(len(row[i]) for row in rows if i < len(row))) for i in range(columns)]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, wide, strict=False)).rstrip()
        for row in rows
    ]


def wrapped(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> list[str]:
    """Return rows like ``aligned``, with the last column wrapped at the width of the terminal.

    For a pipe or a file nothing is wrapped, because other tools read it line by line.
    """
    width = terminal_width()
    if width is None:
        return aligned(rows, widths)
    heads = aligned([row[:-1] for row in rows], widths[:-1])
    least = sum(widths[:-1]) + len(_GAP) * (len(widths) - 2) if widths else 0
    start = max((least, *(len(head) for head in heads))) + len(_GAP)
    beside = width - start >= _LEAST_WRAPPED
    indent = start if beside else 4
    lines: list[str] = []
    for head, row in zip(heads, rows, strict=True):
        text = printable_line(row[-1])
        if beside or start + len(text) <= width:
            first = head.ljust(start)
        else:
            lines.append(head)
            first = " " * indent
            if text == "-":
                continue  # An empty cell needs no line of its own.
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        ) or [head]
    return lines


def first_rows(
    rows: Sequence[Sequence[str]], most: int, heading: Sequence[str] | None = None
) -> list[str]:
    """Return the first rows like ``wrapped``, and a line with the number of the others."""
    lines = wrapped([*([heading] if heading else []), *rows[:most]])
    more = len(rows) - most
    return [*lines, f"... and {more:,} more (-o json has all)"] if more > 0 else lines


def terminal_width() -> int | None:
    """Return the columns of the terminal, or of ``COLUMNS``; None for a pipe or a file."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def _fitting(columns: list[Column], objects: Sequence[Any], now: float) -> list[Column]:
    """Return the columns; on a narrow terminal, those with only usual values are left out."""
    width = terminal_width()
    if width is None or not any(column.usual for column in columns):
        return columns
    rows = [
        [column.name for column in columns],
        *([_cell(column, obj, now) for column in columns] for obj in objects),
    ]
    if max(map(len, aligned(rows))) <= width:
        return columns
    return [
        column
        for at, column in enumerate(columns)
        if not column.usual or any(row[at] != column.usual for row in rows[1:])
    ]


class Table:
    """A table; rows printed later keep the widths of the first ones."""

    def __init__(
        self, columns: Sequence[Column], *, wrap: bool = False, least: Sequence[int] = ()
    ) -> None:
        """``wrap``: the last column, on a terminal. ``least``: min widths of the first columns."""
        self._columns = list(columns)
        self._wrap = wrap
        self._least = least
        self._widths: list[int] = []

    def lines(self, objects: Sequence[Any], now: float) -> list[str]:
        """Return the next rows as lines, preceded by the headings the first time."""
        if not self._widths:
            self._columns = _fitting(self._columns, objects, now)
        rows = [[_cell(column, obj, now) for column in self._columns] for obj in objects]
        if not self._widths:
            rows.insert(0, [column.name.upper() for column in self._columns])
            found = (max(map(len, column)) for column in zip(*rows, strict=True))
            self._widths = [max(pair) for pair in zip_longest(found, self._least, fillvalue=0)]
        return wrapped(rows, self._widths) if self._wrap else aligned(rows, self._widths)


class TablePrinter(Table):
    """A table of objects of one kind."""

    def __init__(
        self,
        kind: Kind,
        *,
        namespaces: bool,
        wide: bool,
        kinds_in_names: bool = False,
        usage: Usage | None = None,
    ) -> None:
        """``namespaces``: the namespace comes first. ``kinds_in_names``: pod/web, not web."""
        columns = [
            c for c in kind.columns if c.sched is Show.ALWAYS or (wide and c.sched is Show.WIDE)
        ]
        columns.sort(key=lambda column: column.name.upper() == "AGE")  # it stands last
        if usage is not None and kind.name == "Node":
            columns = [_used(column, usage) for column in columns]
        if kinds_in_names:
            name = Column("NAME", lambda o, _: f"{kind.name.lower()}/{o.metadata.name}")
            columns = [name if column is NAME else column for column in columns]
        if namespaces and kind.namespaced:
            columns.insert(0, _NAMESPACE)
        super().__init__(columns, wrap=kind.name == "Event" and not wide)
