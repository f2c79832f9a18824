"""Text from files that anybody may have written: its lines and its JSON, in a bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn, Protocol

#: Values in a JSON document; each takes up to some 100 bytes.
MOST_VALUES: Final = 10_000_000
#: Bytes of a line, and of all lines together.
MOST_LINE: Final = 8 << 20
MOST_IN_ALL: Final = 8 << 30


class SizeExceeded(ValueError):
    """A line, or the whole file, is too large, or never ends."""


class Lines(Protocol):
    """A file to read lines from, possibly one that decompresses."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, or so many bytes of it."""


def bounded_lines(
    file: Lines, most_line: int = MOST_LINE, most_in_all: int = MOST_IN_ALL
) -> Iterator[bytes]:
    """Yield lines with their line ends. Raises SizeExceeded, and the errors of ``file``."""
    total = 0
    while line := file.readline(most_line + 1):
        total += len(line)
        if len(line) > most_line:
            raise SizeExceeded(f"more than {most_line >> 20} MiB in a line")
        if total > most_in_all:
            raise SizeExceeded(f"more than {most_in_all >> 30} GiB in all")
        yield line


def parse_json(text: bytes, most_values: int = MOST_VALUES) -> Any:
    """Return what JSON says; Infinity and NaN are none. Raises ValueError, SizeExceeded is one."""
    if separators(text) > most_values:
        raise SizeExceeded(f"more than {most_values:,} values")
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise SizeExceeded("nested too deeply") from None


def separators(text: bytes) -> int:
    """Return how many characters of JSON a value follows, those in its strings included.

    Without strings, that is the number of values, or one less.
    """
    return sum(map(text.count, (b"[", b"{", b",")))


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")
