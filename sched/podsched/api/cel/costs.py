"""What calls cost: when evaluated, and at most, as estimated beforehand.

Rules of cel-go v0.26 (``interpreter/runtimecost.go``, ``checker/cost.go``, ``ext/lists.go``,
``ext/sets.go``) and Kubernetes v1.36 (``apiserver/pkg/cel/library/cost.go``), side by side: each
rule has the actual cost of a call, from its arguments and result, and the estimate, from their
sizes. The target of a method is its first argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.api.cel.types import Type
from podsched.api.cel.values import Budget, Cidr, Format, Ip, Quantity, Semver, Url, size_of

_MOST = 2**64 - 1
_TEXT = 0.1
_PATTERN = 0.25
_LIST_COST = 10


@dataclass(frozen=True, slots=True)
class Size:
    """The bounds of the size of a value."""

    least: int
    most: int

    def union(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: Size) -> Size:
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        return Size(capped(self.least * other.least), capped(self.most * other.most))


UNKNOWN = Size(0, _MOST)
ONE = Size(1, 1)


@dataclass(frozen=True, slots=True)
class Argument:
    """What the estimate knows of an argument."""

    size: Size
    type: Type
    #: The value if it is a literal.
    literal: Any = None
    #: Bounds of the size of a list's elements, where they are known from the device's type.
    elements: Size | None = None


#: The estimate of a call: the most that it costs, and the size of its result if that is known.
Estimate = tuple[int, Size | None]
Arguments = Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Rule:
    """What calls of a function cost."""

    actual: Callable[[tuple[Any, ...], Any], int]
    estimate: Callable[[Arguments], Estimate]


def capped(number: int) -> int:
    """Return the number, or the largest of 64 bits."""
    return min(number, _MOST)


def scaled(size: int, factor: float) -> int:
    """Return the product rounded up, computed as Go does."""
    product = float(size) * factor
    return _MOST if product >= 2.0**64 else math.ceil(product)


def rule_of(function: str, overload: str) -> Rule:
    """Return what a call of an overload costs; "": of one that only the evaluation chooses."""
    return _BY_OVERLOAD.get(overload) or _BY_NAME.get(function, _CONSTANT)


_CONSTANT = Rule(lambda _, __: 1, lambda _: (1, None))


def _traversal(
    factor: float = _TEXT, argument: int = 0, *, result: Callable[[Size], Size] | None = None
) -> Rule:
    """Return the rule of reading through an argument; result: from its size to the result's."""

    def actual(arguments: tuple[Any, ...], _: Any) -> int:
        return math.ceil(size_of(arguments[argument]) * factor)

    def estimate(arguments: Arguments) -> Estimate:
        size = arguments[argument].size
        return scaled(size.most, factor), result(size) if result else None

    return Rule(actual, estimate)


def _deep_cost(value: Any, budget: Budget) -> int:
    """Return the cost of reading through a value and all within it."""
    if isinstance(value, (str, bytes)):
        return int(
            len(value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value) * _TEXT
        )
    if isinstance(value, list):
        budget.spend(len(value))
        return sum(_deep_cost(element, budget) for element in value)
    if isinstance(value, dict):
        budget.spend(len(value))
        return sum(_deep_cost(k, budget) + _deep_cost(v, budget) for k, v in value.items())
    return 1


def _aggregate_estimate(arguments: Arguments) -> Estimate:
    target = arguments[0]
    if not target.type.parameters:
        return scaled(target.size.most, _TEXT), None
    cost = 1
    if target.type.parameters[0].name in ("string", "bytes"):
        cost = capped(1 + scaled((target.elements or UNKNOWN).most, _TEXT))
    return capped(target.size.most * cost), None


_AGGREGATE = Rule(lambda arguments, _: _deep_cost(arguments[0], Budget()), _aggregate_estimate)


def _replace_estimate(arguments: Arguments) -> Estimate:
    text, old, new = (argument.size for argument in arguments[:3])
    most, kept_most = 0, 0
    if old.least == 0:
        most, kept_most = capped(text.most + 1), text.most
    elif new.most <= old.least:
        kept_most = text.most
    else:
        most = math.ceil(float(text.most) / float(old.least))
    least, kept_least = 0, 0
    if old.most == 0:
        least, kept_least = capped(text.least + 1), text.least
    elif old.most <= new.least:
        kept_least = text.least
    else:
        least = math.ceil(float(text.least) / float(old.most))
    size = Size(least, capped(most)).times(new).plus(Size(kept_least, kept_most))
    return scaled(text.most, 2 * _TEXT), size


def _split_estimate(arguments: Arguments) -> Estimate:
    size = arguments[0].size
    most = size.most
    if len(arguments) > 2 and type(arguments[2].literal) is int:
        # Go converts it to an unsigned integer, so -1, which means all parts, is the largest.
        most = arguments[2].literal % 2**64
    return scaled(size.most, 2 * _TEXT), Size(0, most)


def _join_estimate(arguments: Arguments) -> Estimate:
    target = arguments[0]
    size = Size(0, 0)
    if target.type.parameters:
        size = target.size.times(target.elements or UNKNOWN)
    if len(arguments) > 1:
        count = target.size
        separators = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(arguments[1].size.times(separators))
    return scaled(size.most, _TEXT), size


def _pattern_cost(arguments: tuple[Any, ...], _: Any) -> int:
    text = math.ceil((1.0 + size_of(arguments[0])) * _TEXT)
    return text * math.ceil(size_of(arguments[1]) * _PATTERN)


def _pattern_estimate(arguments: Arguments) -> Estimate:
    text = scaled(arguments[0].size.plus(ONE).most, _TEXT)
    return capped(text * scaled(arguments[1].size.most, _PATTERN)), None


def _find_estimate(arguments: Arguments) -> Estimate:
    return _pattern_estimate(arguments)[0], Size(0, arguments[0].size.most)


def _contains_cost(arguments: tuple[Any, ...], _: Any) -> int:
    return math.ceil(size_of(arguments[0]) * _TEXT) * math.ceil(size_of(arguments[1]) * _TEXT)


def _contains_estimate(arguments: Arguments) -> Estimate:
    text, part = (scaled(argument.size.most, _TEXT) for argument in arguments)
    return capped(text * part), None


def _validate_cost(arguments: tuple[Any, ...], _: Any) -> int:
    if not isinstance(arguments[0], Format):
        return 1
    text = math.ceil((1.0 + size_of(arguments[1])) * _TEXT)
    return text * math.ceil(arguments[0].size * _PATTERN)


def _network_rule(*, parse: bool, within: bool) -> Rule:
    """Return the rule of whether a network contains an address, or a network (``within``)."""

    def actual(arguments: tuple[Any, ...], _: Any) -> int:
        size = size_of(arguments[0])
        cost = math.ceil((size + size) * _TEXT)
        if within:
            cost += math.ceil(size * _TEXT) + 1
        return cost + (math.ceil(size_of(arguments[1]) * _TEXT) if parse else 0)

    def estimate(arguments: Arguments) -> Estimate:
        cost = scaled(32, _TEXT) + (scaled(16, _TEXT) + 1 if within else 0)
        return capped(cost + (scaled(arguments[1].size.most, _TEXT) if parse else 0)), None

    return Rule(actual, estimate)


_FIXED = (Quantity, Semver, Url, Ip, Cidr, Format)


def _equal_cost(arguments: tuple[Any, ...], _: Any) -> int:
    one, other = arguments
    if one.__class__ is str and other.__class__ is str:
        return -(-min(len(one), len(other)) // 10)
    if isinstance(one, _FIXED):
        return 1
    return _unequal_cost(arguments, None)


def _unequal_cost(arguments: tuple[Any, ...], _: Any) -> int:
    return math.ceil(min(map(size_of, arguments)) * _TEXT)


def _shorter_estimate(arguments: Arguments) -> Estimate:
    return scaled(min(arguments[0].size.most, arguments[1].size.most), _TEXT), None


def _equal_estimate(arguments: Arguments) -> Estimate:
    one, other = (argument.type for argument in arguments)
    if one == other:
        if one.name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"):
            return 1, None
        if one.name == "kubernetes.NamedFormat":
            return scaled(64, _TEXT), None
        if one.name == "kubernetes.URL":
            size = arguments[1].size
            return scaled(1 if size == UNKNOWN else size.most, _TEXT), None
    return _shorter_estimate(arguments)


def _added_cost(arguments: tuple[Any, ...], _: Any) -> int:
    return math.ceil((size_of(arguments[0]) + size_of(arguments[1])) * _TEXT)


def _added_estimate(arguments: Arguments) -> Estimate:
    size = arguments[0].size.plus(arguments[1].size)
    return scaled(size.most, _TEXT), size


def _sets_rule(factor: float) -> Rule:
    def actual(arguments: tuple[Any, ...], _: Any) -> int:
        return 1 + int(size_of(arguments[0]) * size_of(arguments[1]) * factor)

    def estimate(arguments: Arguments) -> Estimate:
        return capped(1 + scaled(arguments[0].size.times(arguments[1].size).most, factor)), None

    return Rule(actual, estimate)


def _list_estimate(factor: float, size: Size) -> Estimate:
    return capped(scaled(size.most, factor) + 1 + _LIST_COST), size


def _made_cost(_: tuple[Any, ...], result: Any) -> int:
    return size_of(result) + 1 + _LIST_COST


def _number(argument: Argument, default: int) -> int:
    value = argument.literal
    return default if type(value) is not int else max(value, 0)


def _made_rule(length: Callable[[Arguments], int]) -> Rule:
    """Return the rule of making a list; length: the most that it has, from the arguments."""

    def estimate(arguments: Arguments) -> Estimate:
        most = length(arguments) % 2**64
        return _list_estimate(1, Size(most, most))

    return Rule(_made_cost, estimate)


def _flatten_cost(arguments: tuple[Any, ...], _: Any) -> int:
    depth = arguments[1] if len(arguments) == 2 and type(arguments[1]) is int else 1
    return int(size_of(arguments[0]) * float(max(depth, 0))) + 1 + _LIST_COST


def _flatten_estimate(arguments: Arguments) -> Estimate:
    depth = _number(arguments[1], _MOST) if len(arguments) == 2 else 1
    return _list_estimate(float(depth), arguments[0].size)


def _self_compare_rule(keys: int, element: str | None = None) -> Rule:
    """Return the rule of comparing the elements of a list, or of its keys, with each other."""

    def actual(arguments: tuple[Any, ...], _: Any) -> int:
        values = arguments[keys]
        factor = 2.0
        if isinstance(values, list) and values and isinstance(values[0], (str, bytes)):
            factor += _TEXT
        size = size_of(values)
        return int(size * size * factor) + 1 + _LIST_COST

    def estimate(arguments: Arguments) -> Estimate:
        size = arguments[keys].size
        return _list_estimate(
            2.0 + (_TEXT if element in ("string", "bytes") else 0), size.times(size)
        )

    return Rule(actual, estimate)


_TRAVERSAL = _traversal()
_BY_NAME: dict[str, Rule] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _AGGREGATE),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim"),
        _traversal(result=lambda size: size),
    ),
    "replace": Rule(_traversal(2 * _TEXT).actual, _replace_estimate),
    "split": Rule(_traversal(2 * _TEXT).actual, _split_estimate),
    "join": Rule(lambda _, result: math.ceil(size_of(result) * 2 * _TEXT), _join_estimate),
    "find": Rule(_pattern_cost, _find_estimate),
    "findAll": Rule(_pattern_cost, _find_estimate),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _TRAVERSAL
    ),
    "ip.isCanonical": _traversal(2 * _TEXT),
    "containsIP": _network_rule(parse=False, within=False),
    "containsCIDR": _network_rule(parse=False, within=True),
    "validate": Rule(
        _validate_cost, lambda a: (scaled(scaled(a[1].size.most, _TEXT), 128 * _PATTERN), None)
    ),
}
_ORDERS = ("_<_", "_<=_", "_>_", "_>=_")
_BY_OVERLOAD: dict[str, Rule] = {
    ".ip(CIDR)": _CONSTANT,
    ".containsIP(CIDR, string)": _network_rule(parse=True, within=False),
    ".containsCIDR(CIDR, string)": _network_rule(parse=True, within=True),
    "_==_('A, 'A)": Rule(_equal_cost, _equal_estimate),
    "_!=_('A, 'A)": Rule(_unequal_cost, _shorter_estimate),
    **{
        f"{order}({name}, {name})": Rule(_unequal_cost, _shorter_estimate)
        for order in _ORDERS
        for name in ("string", "bytes")
    },
    "_+_(string, string)": Rule(_added_cost, _added_estimate),
    "_+_(bytes, bytes)": Rule(_added_cost, _added_estimate),
    "_+_(list('A), list('A))": Rule(_CONSTANT.actual, lambda a: (1, a[0].size.plus(a[1].size))),
    "@in('A, list('A))": _traversal(1, 1),
    ".startsWith(string, string)": Rule(_TRAVERSAL.actual, _traversal(argument=1).estimate),
    ".endsWith(string, string)": Rule(_TRAVERSAL.actual, _traversal(argument=1).estimate),
    ".contains(string, string)": Rule(_contains_cost, _contains_estimate),
    ".matches(string, string)": Rule(_pattern_cost, _pattern_estimate),
    ".format(string, list(dyn))": _TRAVERSAL,
    # Go's integers wrap around.
    "strings.quote(string)": _traversal(
        result=lambda size: Size(size.least + 2, (size.most * 2 + 2) % 2**64)
    ),
    "bytes(string)": _traversal(result=lambda size: Size(size.least, size.most * 4 % 2**64)),
    "string(bytes)": _traversal(result=lambda size: Size(size.least // 4, size.most)),
    "sets.contains(list('T), list('T))": _sets_rule(1),
    "sets.intersects(list('T), list('T))": _sets_rule(1),
    "sets.equivalent(list('T), list('T))": _sets_rule(2),
    ".slice(list('T), int, int)": _made_rule(
        lambda a: _number(a[2], a[0].size.most) - _number(a[1], 0)
    ),
    "lists.range(int)": _made_rule(lambda a: _number(a[0], _MOST)),
    ".reverse(list('T))": Rule(_made_cost, lambda a: _list_estimate(1, a[0].size)),
    ".flatten(list(list('T)))": Rule(_flatten_cost, _flatten_estimate),
    ".flatten(list(dyn), int)": Rule(_flatten_cost, _flatten_estimate),
    ".distinct(list('T))": _self_compare_rule(0),
    ".includes(dyn, dyn)": Rule(_CONSTANT.actual, lambda _: (48, None)),
    **{
        overload: _self_compare_rule(keys, name)
        for name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for keys, overload in (
            (0, f".sort(list({name}))"),
            (1, f".@sortByAssociatedKeys(list('T), list({name}))"),
        )
    },
}
