"""CEL's functions of lists, sets, maps and optional values.

cel-go v0.26 ``ext/lists.go`` (version 3), ``ext/sets.go``, ``cel/library.go``; Kubernetes v1.36
``apiserver/pkg/cel/library/lists.go``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from podsched.api.cel.declarations import declare, declare_each
from podsched.api.cel.operators import contained
from podsched.api.cel.values import (
    MISSING,
    NO_OVERLOAD,
    NONE,
    Budget,
    Duration,
    Failure,
    Optional,
    Uint,
    checked,
    checked_duration,
    checked_uint,
    compare,
    equal,
    find,
    key_of,
)

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
#: Longest list that ``lists.range`` makes: each element costs one.
_MAX_RANGE = 1_000_000


@declare(*(f".isSorted(list({name})) -> bool" for name in _COMPARABLE))
def _is_sorted(values: list[Any]) -> bool | Failure:
    for one, other in itertools.pairwise(values):
        order = compare(one, other)
        if order == 1:
            return False
    return True


def _declare_sum(name: str, zero: Any, add: Callable[[Any, Any], Any]) -> None:
    @declare(f".sum(list({name})) -> {name}")
    def total(values: list[Any]) -> Any:
        result = zero
        for value in values:
            if type(value) is not type(zero):
                return NO_OVERLOAD
            result = add(result, value)
            if result.__class__ is Failure:
                return result
        return result


_declare_sum("int", 0, lambda one, other: checked(one + other))
_declare_sum("uint", Uint(0), lambda one, other: checked_uint(int(one) + int(other)))
_declare_sum("double", 0.0, lambda one, other: one + other)
_declare_sum("duration", Duration(0), lambda one, other: checked_duration(one.ns + other.ns))


def _declare_extreme(name: str, wanted: int) -> None:
    @declare(*(f".{name}(list({element})) -> {element}" for element in _COMPARABLE))
    def extreme(values: list[Any]) -> Any:
        if not values:
            return Failure(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if compare(best, value) == -wanted:
                best = value
        return best


_declare_extreme("max", 1)
_declare_extreme("min", -1)


def _first_of(indices: Iterable[int], values: list[Any], wanted: Any, budget: Budget) -> int:
    return next((i for i in indices if equal(values[i], wanted, budget) is True), -1)


@declare(".slice(list('T), int, int) -> list('T)")
def _sliced(values: list[Any], start: int, end: int) -> list[Any] | Failure:
    if start < 0 or end < 0:
        return Failure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        return Failure(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if len(values) < end:
        return Failure(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


@declare(".flatten(list(dyn), int) -> list(dyn)", budget=True)
def _flattened_to(values: Any, depth: Any, budget: Budget) -> Any:
    if not isinstance(values, list) or type(depth) is not int:
        return NO_OVERLOAD
    if depth < 0:
        return Failure("level must be non-negative")
    while depth and any(isinstance(value, list) for value in values):
        grown: list[Any] = []
        for value in values:
            if isinstance(value, list):
                budget.spend(len(value))
                grown.extend(value)
            else:
                grown.append(value)
        budget.spend(len(values))
        values, depth = grown, depth - 1
    return values


@declare(*(f".sort(list({name})) -> list({name})" for name in _COMPARABLE), shared=True)
def _sort(values: list[Any]) -> list[Any] | Failure:
    return _sort_by_keys(values, values)


@declare(
    *(f".@sortByAssociatedKeys(list('T), list({name})) -> list('T)" for name in _COMPARABLE),
    shared=True,
)
def _sort_by_keys(values: list[Any], sort_keys: list[Any]) -> list[Any] | Failure:
    if len(values) != len(sort_keys):
        return Failure(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list,"
            f" but got {len(values)} and {len(sort_keys)} elements respectively"
        )
    if (
        sort_keys
        and isinstance(compare(sort_keys[0], sort_keys[0]), Failure)
        and not isinstance(sort_keys[0], float)
    ):
        return Failure("list elements must be comparable")
    if len({type(key) for key in sort_keys}) > 1:
        return Failure("list elements must have the same type")

    def order(one: int, other: int) -> int:
        found = compare(sort_keys[one], sort_keys[other])
        return 0 if isinstance(found, Failure) else found

    indices = sorted(range(len(values)), key=functools.cmp_to_key(order))
    return [values[index] for index in indices]


@declare("lists.range(int) -> list(int)")
def _number_range(count: int) -> list[int] | Failure:
    if count > _MAX_RANGE:
        return Failure("operation cancelled: actual cost limit exceeded")
    return list(range(count))


@declare(".distinct(list('T)) -> list('T)", budget=True)
def _distinct(values: list[Any], budget: Budget) -> list[Any]:
    found: list[Any] = []
    for value in values:
        budget.spend(len(found) // 4)
        if not any(equal(value, other, budget) is True for other in found):
            found.append(value)
    return found


@declare("sets.contains(list('T), list('T)) -> bool", budget=True)
def _set_contains(values: list[Any], wanted: list[Any], budget: Budget) -> bool:
    return all(contained(value, values, budget) for value in wanted)


@declare("cel.@mapInsert(map('K, 'V), 'K, 'V) -> map('K, 'V)")
def _map_insert(container: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any] | Failure:
    """Insert into the accumulator of a macro, which nothing else refers to."""
    stored = key_of(key)
    if isinstance(stored, Failure):
        return stored
    if find(container, key) is not MISSING:
        return Failure("insert failed: key already exists")
    container[stored] = value
    return container


@declare("cel.@mapInsert(map('K, 'V), map('K, 'V)) -> map('K, 'V)", budget=True)
def _map_insert_all(
    container: dict[Any, Any], other: dict[Any, Any], budget: Budget
) -> dict[Any, Any] | Failure:
    budget.spend(len(other))
    for key, value in other.items():
        if key in container:
            return Failure("insert failed: key already exists")
        container[key] = value
    return container


def _is_zero(value: Any) -> bool:
    if isinstance(value, Duration):
        return value.ns == 0
    return value is None or (
        isinstance(value, (bool, int, float, str, bytes, list, dict)) and not value
    )


@declare("optional.unwrap(list(optional('V))) -> list('V)", budget=True)
@declare(".unwrapOpt(list(optional('V))) -> list('V)", budget=True)
def _unwrapped(values: list[Any], budget: Budget) -> list[Any] | Failure:
    budget.spend(len(values) // 4)
    if not all(isinstance(value, Optional) for value in values):
        return Failure("value is not optional")
    return [value.value for value in values if value.present]


@declare(".includes(dyn, dyn) -> bool", budget=True)
def _includes(target: Any, wanted: Any, budget: Budget) -> bool | Failure:
    """Return whether an attribute is or has the value (feature DRAListTypeAttributes)."""
    if not isinstance(target, list):
        return equal(target, wanted, budget) is True
    for index, value in enumerate(target):
        if index >= _MAX_INCLUDES:
            return Failure(
                f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values"
            )
        if equal(value, wanted, budget) is True:
            return True
    return False


_MAX_INCLUDES = 48

declare_each(
    {
        ".reverse(list('T)) -> list('T)": lambda values: values[::-1],
        ".first(list('V)) -> optional('V)": lambda values: (
            Optional(True, values[0]) if values else NONE
        ),
        ".last(list('V)) -> optional('V)": lambda values: (
            Optional(True, values[-1]) if values else NONE
        ),
        "optional.none() -> optional('V)": lambda: NONE,
        "optional.of('V) -> optional('V)": lambda value: Optional(True, value),
        "optional.ofNonZeroValue('V) -> optional('V)": lambda value: (
            NONE if _is_zero(value) else Optional(True, value)
        ),
        ".hasValue(optional('V)) -> bool": lambda value: value.present,
        ".value(optional('V)) -> 'V": lambda value: (
            value.value if value.present else Failure("optional.none() dereference")
        ),
    }
)
declare_each(
    {
        ".indexOf(list('A), 'A) -> int": lambda values, wanted, budget: _first_of(
            range(len(values)), values, wanted, budget
        ),
        ".lastIndexOf(list('A), 'A) -> int": lambda values, wanted, budget: _first_of(
            reversed(range(len(values))), values, wanted, budget
        ),
        ".flatten(list(list('T))) -> list('T)": lambda values, budget: _flattened_to(
            values, 1, budget
        ),
        "sets.equivalent(list('T), list('T)) -> bool": lambda one, other, budget: (
            _set_contains(one, other, budget) and _set_contains(other, one, budget)
        ),
        "sets.intersects(list('T), list('T)) -> bool": lambda one, other, budget: any(
            contained(value, other, budget) for value in one
        ),
    },
    budget=True,
)
