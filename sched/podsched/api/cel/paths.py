"""Paths such as ``device.attributes["a"].b``: each is one closure.

As in cel-go (``interpreter/attributes.go``), a path is an *attribute*: a base with qualifiers. Each
qualifier costs one, and so does the path as a whole, except where something larger resolves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from podsched.api.cel.state import CostExceeded, Run, State
from podsched.api.cel.values import (
    MISSING,
    NO_OVERLOAD,
    NONE,
    Defaulting,
    Failure,
    Optional,
    Uint,
    find,
    type_name,
)

#: Marks a step of a program that is not a constant.
VARIES: Any = object()


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A step of a path: a constant key, or one that is evaluated."""

    key: Any = VARIES
    run: Run | None = None
    optional: bool = False
    #: Asks only whether the key is there; after an optional part the answer is an optional value.
    test: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """A path: what it starts from, and its qualifiers.

    ``base`` is a run; a ternary is a path with two branches, to which qualifiers are appended.
    """

    base: Run
    qualifiers: tuple[Qualifier, ...] = ()
    branches: tuple[Attribute, Attribute] | None = None

    def then(self, qualifier: Qualifier) -> Attribute:
        if self.branches is not None:
            yes, no = self.branches
            return replace(self, branches=(yes.then(qualifier), no.then(qualifier)))
        return replace(self, qualifiers=(*self.qualifiers, qualifier))


def plain(attribute: Attribute) -> Run | None:
    """Return the run of a path of constant strings, which is what most selectors consist of."""
    qualifiers = attribute.qualifiers
    if any(type(q.key) is not str or q.optional or q.test for q in qualifiers):
        return None
    names = [qualifier.key for qualifier in qualifiers]
    base = attribute.base

    def run(state: State) -> Any:
        start = value = base(state)
        cost = 1
        try:
            for name in names:
                cost += 1
                if value.__class__ is not dict and value.__class__ is not Defaulting:
                    return slow(state, start)
                value = value[name]
        except KeyError:
            value = Failure(f"no such key: {name}")
        state.cost = cost = state.cost + cost
        if cost > state.limit:
            raise CostExceeded(state.limit + 1)
        return value

    def slow(state: State, value: Any) -> Any:
        """Follow a path that leads through something else than maps."""
        if value.__class__ is not Failure:
            value = _qualify(state, value, qualifiers)
        state.steps(1)
        return value

    return run


def resolution(attribute: Attribute) -> Run:
    """Return how a path is resolved; what resolving it as a whole costs is not counted."""
    base, qualifiers = attribute.base, attribute.qualifiers
    if attribute.branches is not None:
        yes, no = map(resolution, attribute.branches)

        def choose(state: State) -> Any:
            value = base(state)
            if value is True:
                return yes(state)
            if value is False:
                return no(state)
            return value if value.__class__ is Failure else NO_OVERLOAD

        return choose
    if not qualifiers:
        return base

    def resolve(state: State) -> Any:
        value = base(state)
        return value if value.__class__ is Failure else _qualify(state, value, qualifiers)

    return resolve


def _qualify(state: State, value: Any, qualifiers: tuple[Qualifier, ...]) -> Any:
    optional = type(value) is Optional
    if optional:
        if not value.present:
            return value
        value = value.value
    for qualifier in qualifiers:
        optional = optional or qualifier.optional
        key = qualifier.key if qualifier.run is None else qualifier.run(state)
        if key.__class__ is Failure:
            value = key
        elif qualifier.test and not optional:
            value = _has(value, key)
        else:
            value = _qualified(value, key, presence=optional)
        if value is MISSING:
            return NONE
        failed = value.__class__ is Failure
        if not (failed and optional):
            state.steps(1)
        if failed:
            return value
    return Optional(True, value) if optional else value


def _qualified(value: Any, key: Any, *, presence: bool = False) -> Any:
    """Return the element or entry; a failure if there is none, or MISSING if presence is asked."""
    if isinstance(value, dict):
        found = find(value, key)
        if found is MISSING and not presence:
            return Failure(f"no such key: {shown(key)}")
        return found
    if isinstance(value, list):
        index = _index_of(key)
        if isinstance(index, Failure):
            return index
        if 0 <= index < len(value):
            return value[index]
        return MISSING if presence else Failure(f"index out of bounds: {shown(key)}")
    return MISSING if presence else Failure(f"no such key: {shown(key)}")


def shown(key: Any) -> str:
    """Return a key for a message: others than scalars may be of any size."""
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, str):
        return key[:100]
    return str(key) if isinstance(key, (int, float)) or key is None else type_name(key)


def _has(value: Any, key: Any) -> Any:
    found = _qualified(value, key, presence=True)
    if found is MISSING:
        return False
    return found if isinstance(found, Failure) else True


def _index_of(key: Any) -> int | Failure:
    if type(key) in (int, Uint):
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    return Failure(f"unsupported index type '{type_name(key)}' in list")
