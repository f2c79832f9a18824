"""Reads lines and JSON of untrusted files with bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from gzip import GzipFile

#: Max values in a JSON document; each takes up to about 100 bytes of memory.
MAX_VALUES: Final = 10_000_000
#: Max bytes of a line, and of all lines together.
MAX_LINE: Final = 8 << 20
MAX_TOTAL: Final = 8 << 30


class SizeExceeded(ValueError):
    """A line, a whole file or a JSON document exceeds its limit."""


def bounded_lines(
    file: IO[bytes] | GzipFile, max_line: int = MAX_LINE, max_total: int = MAX_TOTAL
) -> Iterator[bytes]:
    """Yield the lines of a file with their line ends; limits are in bytes.

    Raises SizeExceeded, and the errors of ``file``.
    """
    total = 0
    while line := file.readline(max_line + 1):
        total += len(line)
        if len(line) > max_line:
            raise SizeExceeded(f"more than {max_line >> 20} MiB in a line")
        if total > max_total:
            raise SizeExceeded(f"more than {max_total >> 30} GiB in all")
        yield line


def parse_json(text: bytes, max_values: int = MAX_VALUES) -> Any:
    """Parse JSON; Infinity and NaN are refused, and so are strings that have no UTF-8.

    Raises ValueError; SizeExceeded is a subclass.
    """
    if separators(text) > max_values:
        raise SizeExceeded(f"more than {max_values:,} values")
    try:
        found = json.loads(text, parse_constant=_no_number)
        if b"\\u" in text:
            # JSON may escape half a character, such as "\\ud800". No message can contain that.
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise SizeExceeded("nested too deeply") from None


def separators(text: bytes) -> int:
    """Return an upper bound for the number of values in JSON, minus one, without parsing it.

    Every value except the outermost follows "[", "{" or ","; such characters in strings are
    counted, too.
    """
    return sum(map(text.count, (b"[", b"{", b",")))


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")
