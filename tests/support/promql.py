"""What a PromQL expression asks for, as far as tests of boards and rules need to know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan"})
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')


class Matcher(NamedTuple):
    """A condition on a label."""

    label: str
    operator: str
    value: str


class Selector(NamedTuple):
    """A metric with the conditions on its labels."""

    metric: str
    matchers: tuple[Matcher, ...]


def selectors(expression: str) -> Iterator[Selector]:
    """Yield what an expression reads."""
    bare = _RANGE.sub("", _GROUPING.sub(" ", expression))
    strings: list[str] = []

    def keep(found: re.Match[str]) -> str:
        strings.append(found[0])
        return f"\0{len(strings) - 1}\0"

    bare = re.sub(r"\{[^{}]*\}", keep, bare)
    for found in re.finditer(r"(?<![\w.])([a-zA-Z_:][\w:]*)(?:\s*\0(\d+)\0)?(\s*\()?", bare):
        name, at, call = found[1], found[2], found[3]
        if call or name in _WORDS or name.isnumeric():
            continue
        matchers = _MATCHER.findall(strings[int(at)]) if at else []
        yield Selector(name, tuple(Matcher(*matcher) for matcher in matchers))


def grouped(expression: str) -> set[str]:
    """Return the labels by which an expression groups or joins."""
    lists = _GROUPING.findall(expression)
    return {label.strip() for names in lists for label in names.split(",") if label.strip()}
