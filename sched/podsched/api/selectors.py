"""Label selectors, compiled once and matched often.

They follow k8s.io/apimachinery/pkg/labels. Compiled selectors are immutable, hashable and interned
by content, so that equal selectors of many pods are one object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast

from podsched.api.names import label_value, qualified_name
from podsched.api.objects import LabelSelector
from podsched.lib.remembering import remember_short

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
#: Characters of a selector as text: as many as a request that has one may be long.
MAX_TEXT = 64 << 10
#: Requirements of a selector as text. 9,000, as many as fit into 64 KiB, take 1.3 ms an object: a
#: list of 50,000 pods would take more than a minute.
MAX_REQUIREMENTS = 100
_CACHE = 1 << 14
#: Characters, and requirements with their values, of selectors that are remembered: one of 64 KiB
#: takes megabytes.
_MOST_CACHED, _MOST_PARTS = 1000, 40
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class SelectorError(ValueError):
    """The selector cannot be read: a fault of its author."""


def parse_int64(text: str) -> int | None:
    """Return a decimal integer as strconv.ParseInt reads it, or None."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key. ``values`` holds one decimal integer for Gt and Lt."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return it as selectors are written."""
        key, values = self.key, ",".join(sorted(self.values))
        forms = {
            "In": f"{key}={values}" if len(self.values) == 1 else f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
            "Gt": f"{key}>{values}",
            "Lt": f"{key}<{values}",
        }
        return forms[self.operator]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the condition; an absent key meets NotIn and DoesNotExist."""
        value = labels.get(self.key)
        return _TESTS[self.operator](value, self.values)


def _compare(value: str | None, bounds: frozenset[str], sign: int) -> bool:
    if value is None:
        return False
    number = parse_int64(value)
    bound = parse_int64(next(iter(bounds), ""))
    return number is not None and bound is not None and (number - bound) * sign > 0


_TESTS: Mapping[str, Callable[[str | None, frozenset[str]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _compare(value, values, 1),
    "Lt": lambda value, values: _compare(value, values, -1),
}


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must be met; none at all means everything, ``requirements=None`` nothing."""

    requirements: tuple[Requirement, ...] | None = ()

    def __str__(self) -> str:
        """Return it as selectors are written; "" matches everything."""
        return ",".join(str(requirement) for requirement in self.requirements or ())

    @property
    def empty(self) -> bool:
        """Whether it matches everything."""
        return self.requirements == ()

    @property
    def required_label(self) -> tuple[str, str] | None:
        """A label without which nothing matches; None: there is none, or it may have values."""
        for part in self.requirements or ():
            if part.operator == "In" and len(part.values) == 1:
                return part.key, next(iter(part.values))
        return None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels meets every requirement."""
        if self.requirements is None:
            return False
        # Nearly all ask for one value. Where every pod has labels of its own, each selector that
        # pods are counted by is put to each of them: a third of the time of a call for each part.
        for part in self.requirements:
            if part.operator == "In":
                if labels.get(part.key) not in part.values:
                    return False
            elif not part.matches(labels):
                return False
        return True


EVERYTHING = Selector(())
NOTHING = Selector(None)


@lru_cache(_CACHE)
def _interned(requirements: tuple[Requirement, ...]) -> Selector:
    return Selector(requirements)


def _make(requirements: list[Requirement]) -> Selector:
    unique = {(r.key, r.operator, tuple(sorted(r.values))): r for r in requirements}
    ordered = tuple(unique[key] for key in sorted(unique))
    if sum(1 + len(r.values) for r in ordered) > _MOST_PARTS:
        return Selector(ordered)
    return _interned(ordered) if ordered else EVERYTHING


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Return a checked requirement. Raises SelectorError."""
    if operator not in _TESTS:
        raise SelectorError(f'"{operator}" is not a valid label selector operator')
    if operator in ("In", "NotIn") and not values:
        raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        raise SelectorError("values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt") and (len(values) != 1 or parse_int64(values[0]) is None):
        raise SelectorError("for 'Gt', 'Lt' operators, the value must be an integer")
    return Requirement(key, cast(Operator, operator), frozenset(values))


def from_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector of a Service or ReplicationController: each label with this value."""
    return _make([Requirement(key, "In", frozenset((value,))) for key, value in labels.items()])


def compile_selector(selector: LabelSelector | None) -> Selector:
    """Compile a LabelSelector; None (absent) matches nothing, an empty one everything.

    Raises SelectorError.
    """
    if selector is None:
        return NOTHING
    return _compile(selector.SerializeToString(deterministic=True))


@remember_short(_CACHE, _MOST_CACHED)
def _compile(content: bytes) -> Selector:
    selector = LabelSelector.FromString(content)
    requirements = [
        Requirement(key, "In", frozenset((value,))) for key, value in selector.match_labels.items()
    ]
    for expression in selector.match_expressions:
        if expression.operator in ("Gt", "Lt"):
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(
            requirement(expression.key, expression.operator, tuple(expression.values))
        )
    return _make(requirements)


# ---------------------------------------------------------------------------------- string syntax

_TOKEN = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")
_SYMBOLIC: Mapping[str, Operator] = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_WORDS: Mapping[str, Operator] = {"in": "In", "notin": "NotIn"}


class _Parser:
    """A parser of "a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1"."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._position = 0

    def _split(self, text: str) -> list[str]:
        tokens, position, end = [], 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"at position {position}")
            tokens.append(match.group(1) or match.group(2))
            position = match.end()
        return tokens

    def _error(self, what: str) -> SelectorError:
        return SelectorError(f'unable to parse requirement in selector "{self._text}": {what}')

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _word(self, what: str) -> str:
        token = self._next()
        if not token or token[0] in "=!(),<>":
            raise self._error(f"found '{token}', expected: {what}")
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while token := self._peek():
            if token[0] in "=(),<>" or token == "!=":
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            separator = self._next()
            if separator not in ("", ","):
                raise self._error(f"found '{separator}', expected: ',' or end")
            if separator == "," and not self._peek():
                raise self._error("found '', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "DoesNotExist")
        key = self._key()
        token = self._peek()
        if token in ("", ","):
            return Requirement(key, "Exists")
        self._next()
        if token in _WORDS:
            return _checked(key, _WORDS[token], self._values())
        if token not in _SYMBOLIC:
            raise self._error(f"found '{token}', expected: in, notin, =, ==, !=, >, <")
        value = "" if self._peek() in ("", ",") else self._word("value")
        return _checked(key, _SYMBOLIC[token], [value])

    def _key(self) -> str:
        key = self._word("identifier")
        if wrong := qualified_name(key):
            raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}')
        return key

    def _values(self) -> list[str]:
        if self._next() != "(":
            raise self._error("expected: '('")
        values = []
        while True:
            values.append("" if self._peek() in (",", ")") else self._word("value"))
            token = self._next()
            if token == ")":
                return values
            if token != ",":
                raise self._error(f"found '{token}', expected: ',' or ')'")


def _checked(key: str, operator: Operator, values: list[str]) -> Requirement:
    """Return a requirement whose values labels can have. Raises SelectorError as Kubernetes."""
    found = requirement(key, operator, tuple(values))
    for index, value in enumerate(sorted(found.values)):
        for wrong in label_value(value):
            where = f'values[{index}][{key}]: Invalid value: "{value}"'
            raise SelectorError(f"{where}: {wrong}")
    return found


@remember_short(1024, _MOST_CACHED)
def parse_selector(text: str) -> Selector:
    """Return a label selector in kubectl's syntax; "" matches everything. Raises SelectorError."""
    if len(text) > MAX_TEXT:
        raise SelectorError(f"a selector may have at most {MAX_TEXT} characters")
    requirements = _Parser(text).requirements()
    if len(requirements) > MAX_REQUIREMENTS:
        raise SelectorError(f"a selector may have at most {MAX_REQUIREMENTS} requirements")
    return _make(requirements)
