"""CEL's functions of strings and regular expressions.

cel-go v0.26 ``ext/strings.go`` (version 2) and Kubernetes v1.36
``apiserver/pkg/cel/library/regex.go``.
Regular expressions are RE2's: they take linear time, and Python's do not. Compiling them takes
longer than in Go, whose instructions match letters and not bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from podsched.api.cel.declarations import declare, declare_each
from podsched.api.cel.errors import CompileError
from podsched.api.cel.formatting import ESCAPES, formatted
from podsched.api.cel.values import Budget, Failure


@declare(".charAt(string, int) -> string")
def _char_at(text: str, index: int) -> str | Failure:
    if not 0 <= index <= len(text):
        return Failure(f"index out of range: {index}")
    return text[index : index + 1]


@declare(".indexOf(string, string, int) -> int")
def _index_of_from(text: str, part: str, start: int) -> int | Failure:
    # As in cel-go, for an empty part even a start that is out of range is the result.
    if not part:
        return start
    if start < 0:
        return Failure(f"index out of range: {start}")
    return text.find(part, start)


@declare(".lastIndexOf(string, string) -> int")
def _last_index_of(text: str, part: str) -> int:
    # ``str.rfind`` takes quadratic time.
    found = text[::-1].find(part[::-1])
    return found if found < 0 else len(text) - found - len(part)


@declare(".lastIndexOf(string, string, int) -> int")
def _last_index_of_from(text: str, part: str, start: int) -> int | Failure:
    if not part:
        return start
    if start < 0:
        return Failure(f"index out of range: {start}")
    return -1 if start >= len(text) else _last_index_of(text[: start + len(part)], part)


_LOWER = {ord(letter): ord(letter) + 32 for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER = {small: large for large, small in _LOWER.items()}


@declare(".replace(string, string, string, int) -> string", budget=True)
def _replace_some(text: str, old: str, new: str, most: int, budget: Budget) -> str:
    count = text.count(old) if most < 0 else min(most, text.count(old))
    # The costs count the text alone, not what it grows to.
    budget.spend((len(text) + count * len(new)) // 16)
    return text.replace(old, new, count)


@declare(".split(string, string, int) -> list(string)")
def _split_some(text: str, separator: str, most: int) -> list[str]:
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    if most < 0 or most >= len(text):
        return list(text)
    return [*text[: most - 1], text[most - 1 :]]


@declare(".substring(string, int, int) -> string")
def _substring(text: str, start: int, end: int) -> str | Failure:
    if start > end:
        return Failure(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            return Failure(f"index out of range: {index}")
    return text[start:end]


#: What Go's unicode.IsSpace takes for space.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@declare(".join(list(string), string) -> string", budget=True)
def _join_by(values: list[Any], separator: str, budget: Budget) -> str | Failure:
    if not all(isinstance(value, str) for value in values):
        return Failure("join: invalid input")
    budget.spend((sum(map(len, values)) + len(values) * len(separator)) // 16)
    return separator.join(values)


@declare("matches(string, string) -> bool", ".matches(string, string) -> bool", shared=True)
def _matches(text: str, pattern: str) -> bool | Failure:
    expression = compiled(pattern)
    if isinstance(expression, Failure):
        return expression
    return expression.search(_encoded(text)) is not None


@declare(".find(string, string) -> string")
def _find(text: str, pattern: str) -> str | Failure:
    expression = compiled(pattern)
    if isinstance(expression, Failure):
        return expression
    match = expression.search(_encoded(text))
    return match.group().decode("utf-8", "surrogatepass") if match else ""


@declare(".findAll(string, string, int) -> list(string)", budget=True)
def _find_some(text: str, pattern: str, most: int, budget: Budget) -> list[str] | Failure:
    expression = compiled(pattern)
    if isinstance(expression, Failure):
        return expression
    data = _encoded(text)
    found: list[str] = []
    start, last_end = 0, -1
    while start <= len(data) and (most < 0 or len(found) < most):
        # Each search may read all of the rest.
        budget.spend(1 + (len(data) - start) // 64)
        match = expression.search(data, start)
        if match is None:
            break
        # Go leaves out an empty match right after another one.
        if match.end() != start or match.start() != last_end:
            found.append(match.group().decode("utf-8", "surrogatepass"))
        last_end = match.end()
        start = match.end() if match.end() > start else _next_character(data, start)
    return found


declare_each(
    {
        ".contains(string, string) -> bool": lambda text, part: part in text,
        ".startsWith(string, string) -> bool": str.startswith,
        ".endsWith(string, string) -> bool": str.endswith,
        ".indexOf(string, string) -> int": str.find,
        ".lowerAscii(string) -> string": lambda text: text.translate(_LOWER),
        ".upperAscii(string) -> string": lambda text: text.translate(_UPPER),
        ".split(string, string) -> list(string)": lambda text, by: _split_some(text, by, -1),
        ".substring(string, int) -> string": lambda text, start: (
            text[start:] if 0 <= start <= len(text) else Failure(f"index out of range: {start}")
        ),
        ".trim(string) -> string": lambda text: text.strip(_SPACE),
        "strings.quote(string) -> string": lambda text: f'"{text.translate(ESCAPES)}"',
    }
)
declare_each(
    {
        ".format(string, list(dyn)) -> string": formatted,
        ".replace(string, string, string) -> string": lambda text, old, new, budget: _replace_some(
            text, old, new, -1, budget
        ),
        ".join(list(string)) -> string": lambda values, budget: _join_by(values, "", budget),
        ".findAll(string, string) -> list(string)": lambda text, pattern, budget: _find_some(
            text, pattern, -1, budget
        ),
    },
    budget=True,
)


def _next_character(data: bytes, start: int) -> int:
    start += 1
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return start


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Patterns:
    """The constant regular expressions of one selector: their programs are bounded together."""

    #: Instructions: 30 milliseconds to compile.
    MOST = 50_000

    def __init__(self) -> None:
        #: Instructions of all programs.
        self.size = 0

    def compiled(self, pattern: str) -> Any:
        """Return the regular expression; a Failure if it is none. Raises CompileError."""
        expression = compiled(pattern)
        self.size += program_size(expression)
        if self.size > self.MOST:
            raise CompileError("the regular expressions are too large")
        return expression


def program_size(expression: Any) -> int:
    """Return the number of instructions, to which the time of compiling is proportional."""
    if isinstance(expression, Failure):
        return _TOO_LARGE if "too large" in expression.message else 0
    return int(expression.programsize)


#: How far RE2 gets, about, before it gives up.
_TOO_LARGE = 17_000
#: What a backslash begins in a regular expression: a quotation, or an escape.
_ESCAPES = re.compile(r"\\Q[\s\S]*?(?:\\E|\Z)|\\[\s\S]")


@lru_cache(256)
def compiled(pattern: str) -> Any:
    """Return the regular expression, of bytes; a Failure if it is none."""
    # Only programs that evaluate selectors need it: clients are installed without.
    import re2

    if r"\C" in _ESCAPES.findall(pattern):
        # A byte for RE2, which may be a part of a letter; Go's library does not know it.
        return Failure(r"error parsing regexp: invalid escape sequence: `\C`")
    options = re2.Options()
    options.log_errors = False
    # An eighth of what RE2 takes otherwise: some 36,000 instructions.
    options.max_mem = 1 << 20
    try:
        return re2.compile(_encoded(pattern), options=options)
    except re2.error as exc:
        return Failure(f"error parsing regexp: {exc}")
