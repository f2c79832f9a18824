"""CEL selectors of devices (``k8s.io/dynamic-resource-allocation/cel/compile.go`` of v1.36).

An expression sees one variable: ``device``, with ``driver``, ``allowMultipleAllocations``, and
``attributes`` and ``capacity`` by domain and name. Names without a domain belong to the driver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from podsched.api.cel import lists, named_formats  # noqa: F401  # declare functions
from podsched.api.cel.check import Checker
from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.api.cel.estimate import Estimator
from podsched.api.cel.kubernetes import parse_quantity, parse_semver
from podsched.api.cel.program import Compiler
from podsched.api.cel.sizes import Declared
from podsched.api.cel.state import CostExceeded, Run, State
from podsched.api.cel.syntax import parse
from podsched.api.cel.types import ANY, BOOL, DEVICE, DYN, QUANTITY, STRING, Type, map_of
from podsched.api.cel.values import Defaulting, Failure, WorkExceeded, type_name
from podsched.api.quantity import QuantityError
from podsched.lib.remembering import remember_short

__all__ = ["CompileError", "Device", "EvaluationError", "Features", "Result", "Selector"]

#: The API server refuses selectors with a higher estimate, and evaluation stops beyond it.
MAX_COST = 1_000_000


@dataclass(frozen=True, slots=True)
class Features:
    """Feature gates that change what selectors can say."""

    consumable_capacity: bool = True
    list_type_attributes: bool = False


@dataclass(frozen=True, slots=True)
class Device:
    """What a selector sees of a device.

    ``attributes`` are as in the API, by qualified name: ``{"model": {"string": "a100"}}``. Values
    of ``capacity`` are quantities. What they mean is worked out once, for the first selector.
    """

    driver: str
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    allow_multiple_allocations: bool = False
    _views: dict[bool, dict[str, Any] | str] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def view(self, *, as_lists: bool) -> dict[str, Any]:
        """Return the value of the variable. Raises EvaluationError.

        ``as_lists``: attributes may be lists.
        """
        if as_lists not in self._views:
            self._views[as_lists] = self._view(as_lists)
        view = self._views[as_lists]
        if isinstance(view, str):
            raise EvaluationError(view)
        return view

    def _view(self, as_lists: bool) -> dict[str, Any] | str:
        attributes, capacity = Defaulting(), Defaulting()
        for name, attribute in self.attributes.items():
            value = _attribute(attribute, as_lists)
            if isinstance(value, Failure):
                return f"attribute {name}: {value.message}"
            self._put(attributes, name, value)
        for name, amount in self.capacity.items():
            try:
                self._put(capacity, name, _quantity(amount))
            except QuantityError as exc:
                return f"capacity {name}: {exc}"
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }

    def _put(self, domains: Defaulting, name: str, value: Any) -> None:
        domain, slash, identifier = name.partition("/")
        if not slash:
            domain, identifier = self.driver, name
        domains.setdefault(domain, {})[identifier] = value


def _attribute(attribute: Mapping[str, Any], as_lists: bool) -> Any:
    for kind in ("ints", "bools", "strings", "versions") if as_lists else ():
        values = attribute.get(kind)
        if values is not None:
            found = [_value(kind.removesuffix("s"), value) for value in values]
            return next((value for value in found if isinstance(value, Failure)), found)
    for kind in ("int", "bool", "string", "version"):
        if attribute.get(kind) is not None:
            return _value(kind, attribute[kind])
    return Failure("unsupported attribute value")


def _value(kind: str, value: Any) -> Any:
    if kind != "version":
        return value
    return _version(value) or Failure(f"parse semantic version: {value:.100}")


# Devices are alike: most versions and quantities were read before, which takes a tenth of the time.
_quantity = lru_cache(4096)(parse_quantity)
_version = remember_short(4096, 128)(parse_semver)


@dataclass(frozen=True, slots=True)
class Result:
    """What an evaluation found, and its cost."""

    match: bool | None
    error: str | None
    cost: int | None


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled selector."""

    expression: str
    #: The most that an evaluation can cost, with sizes as large as the API permits.
    estimated_cost: int
    #: Instructions of its constant regular expressions, which take most of the time to compile.
    patterns: int
    _run: Run
    _slots: int
    _features: Features

    def matches(self, device: Device, limit: int = MAX_COST) -> bool:
        """Return whether the device matches. Raises EvaluationError."""
        return self._finish(self._state(device, limit))

    def result(self, device: Device) -> Result:
        """Return the result with its cost; it has no cost if a value of the device is bad."""
        state: State | None = None
        try:
            state = self._state(device, MAX_COST)
            return Result(self._finish(state), None, state.cost)
        except CostExceeded as exc:
            return Result(None, str(exc), exc.cost)
        except EvaluationError as exc:
            return Result(None, str(exc), None if state is None else state.cost)

    def _state(self, device: Device, limit: int) -> State:
        slots = [None] * self._slots
        slots[0] = device.view(as_lists=self._features.list_type_attributes)  # type: ignore[call-overload]
        return State(slots, limit)

    def _finish(self, state: State) -> bool:
        try:
            value = self._run(state)
        except WorkExceeded:
            raise CostExceeded(state.limit + 1) from None
        except RecursionError:
            raise EvaluationError(_TOO_DEEP) from None
        if value is True or value is False:
            return bool(value)
        if isinstance(value, Failure):
            raise EvaluationError(value.message)
        raise EvaluationError(
            f"CEL result of type {type_name(value)} could not be converted to bool"
        )


def compile_selector(
    expression: str, *, features: Features | None = None, new: bool = False
) -> Selector:
    """Return the selector. Raises CompileError.

    ``new``: the expression is not stored yet, and must not use what a feature gate turns off.
    """
    try:
        return _compiled(expression, features or Features(), new)
    except RecursionError:
        # The parser's own limits let as much pass as Python has frames for, except where the caller
        # used them up, or with hundreds of lists within lists.
        raise CompileError(_TOO_DEEP) from None


_TOO_DEEP = "expression is nested too deeply"


def _compiled(expression: str, features: Features, new: bool) -> Selector:
    fields, without = _declarations(features, new)
    try:
        tree = parse(expression)
        result = Checker({"device": DEVICE}, {DEVICE.name: fields}, without).check(tree)
    except CompileError as exc:
        raise CompileError(f"compilation failed: {exc.shown(expression)}") from None
    if result not in (BOOL, ANY) and not (features.list_type_attributes and result == DYN):
        raise CompileError(f"must evaluate to bool or the unknown type, not {result}")
    compiler = Compiler({"device": 0})
    run = compiler.compile(tree)
    cost = Estimator({"device": _DECLARED}).cost(tree)
    patterns = compiler.patterns.size
    return Selector(expression, cost, patterns, run, compiler.slots, features)


def _declarations(features: Features, new: bool) -> tuple[dict[str, Type], frozenset[str]]:
    """Return the fields of a device, and the functions that are off."""
    attribute = DYN if features.list_type_attributes else ANY
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if features.consumable_capacity or not new:
        fields["allowMultipleAllocations"] = BOOL
    without = frozenset[str]() if features.list_type_attributes or not new else {"includes"}
    return fields, frozenset(without)


# The API's limits on names and on how many there are.
_DOMAIN, _IDENTIFIER, _MAX_ENTRIES = Declared(63), Declared(32), 32
_ATTRIBUTES = Declared(_MAX_ENTRIES, keys=_IDENTIFIER, elements=Declared(64), open=True)
_CAPACITIES = Declared(_MAX_ENTRIES, keys=_IDENTIFIER, elements=Declared(0))
_DECLARED = Declared(
    0,
    {
        "driver": Declared(63),
        "allowMultipleAllocations": Declared(1),
        "attributes": Declared(_MAX_ENTRIES, keys=_DOMAIN, elements=_ATTRIBUTES),
        "capacity": Declared(_MAX_ENTRIES, keys=_DOMAIN, elements=_CAPACITIES),
    },
)
