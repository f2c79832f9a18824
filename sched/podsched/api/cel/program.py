"""Compiles a checked expression into closures that evaluate it and count its cost.

Costs are those of cel-go v0.26 (``interpreter/runtimecost.go``) with Kubernetes' own of v1.36
(``apiserver/pkg/cel/library/cost.go``). As there, parts that are constant are evaluated once, when
compiled, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from podsched.api.cel.costs import rule_of
from podsched.api.cel.declarations import FUNCTIONS, Overload, no_overload
from podsched.api.cel.errors import CompileError
from podsched.api.cel.paths import VARIES, Attribute, Qualifier, plain, resolution, shown
from podsched.api.cel.state import CostExceeded, Run, State
from podsched.api.cel.strings import Patterns, compiled, program_size
from podsched.api.cel.tree import (
    ACCUMULATOR,
    Call,
    Fold,
    Ident,
    Literal,
    MakeList,
    MakeMap,
    Node,
    Select,
)
from podsched.api.cel.values import (
    NO_OVERLOAD,
    Failure,
    Optional,
    Uint,
    key_of,
    keys,
    size_of,
    type_name,
)

_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_UNSET: Any = object()
_LIST_COST, _MAP_COST = 10, 30
#: Size of a result that is kept with a program. ``lists.range`` can make 40 MB, or hundreds of
#: short lists, and schedulers keep hundreds of programs.
_MOST_REMEMBERED = 100


@dataclass(frozen=True, slots=True)
class _Step:
    """A compiled node: how it runs, its value if that is constant, its path if it is one."""

    run: Run
    constant: Any = VARIES
    attribute: Attribute | None = None


class Compiler:
    """Compiles one expression. ``variables``: indices of the slots of variables by name."""

    def __init__(self, variables: dict[str, int]) -> None:
        self._scope = dict(variables)
        self.slots = len(variables)
        self._lazy: dict[int, Run] = {}
        #: By the node's ``id``: macros use their operand twice.
        self._made: dict[int, _Step] = {}
        self.patterns = Patterns()
        self._compile: dict[type[Node], Callable[[Any], _Step]] = {
            Literal: lambda node: _constant(node.value),
            Ident: self._ident,
            Select: self._select,
            MakeList: lambda node: _list(self._steps(node.elements), node.optional),
            MakeMap: lambda node: _map([*map(self._steps, node.entries)], node.optional),
            Fold: self._fold,
        }
        self._compile_call: dict[str, Callable[[Call], _Step]] = {
            "_&&_": lambda node: _logic(self._steps(node.arguments), True),
            "_||_": lambda node: _logic(self._steps(node.arguments), False),
            "_?_:_": self._ternary,
            "_[_]": self._index,
            "_[?_]": self._index,
            "_?._": self._index,
            "or": lambda node: _alternative(self._steps(node.children()), unwrap=False),
            "orValue": lambda node: _alternative(self._steps(node.children()), unwrap=True),
            "@not_strictly_false": lambda node: _not_false(self._step(node.arguments[0]).run),
        }

    def compile(self, node: Node) -> Run:
        """Return the program. Raises CompileError for a constant that cannot be evaluated."""
        return self._step(node).run

    def _step(self, node: Node) -> _Step:
        made = self._made.get(id(node))
        if made is None:
            if isinstance(node, Call):
                made = self._compile_call.get(node.function, self._function)(node)
            else:
                made = self._compile[type(node)](node)
            self._made[id(node)] = made
        return made

    def _ident(self, node: Ident) -> _Step:
        if node.constant is not None:
            return _constant(node.constant)
        index = self._scope[node.name]
        lazy = self._lazy.get(index)

        def variable(state: State) -> Any:
            return state.slots[index]

        def bound(state: State) -> Any:
            value = state.slots[index]
            if value is _UNSET:
                assert lazy is not None
                value = state.slots[index] = lazy(state)
            return value

        return _path(Attribute(bound if lazy else variable))

    def _path_of(self, node: Node) -> Attribute:
        step = self._step(node)
        return step.attribute or Attribute(step.run)

    def _select(self, node: Select) -> _Step:
        if node.constant is not None:
            return _constant(node.constant)
        path = self._path_of(node.operand).then(Qualifier(node.name, test=node.test))
        return _path(path, test=node.test)

    def _index(self, node: Call) -> _Step:
        operand, index = node.arguments
        path = self._path_of(operand)
        optional = node.function != "_[_]"
        step = self._step(index)
        if step.constant is not VARIES:
            return _path(path.then(Qualifier(step.constant, optional=optional)))
        run = resolution(step.attribute) if step.attribute else step.run
        return _path(path.then(Qualifier(run=run, optional=optional)))

    def _ternary(self, node: Call) -> _Step:
        condition = self._step(node.arguments[0]).run
        branches = (self._path_of(node.arguments[1]), self._path_of(node.arguments[2]))
        return _path(Attribute(condition, branches=branches))

    def _steps(self, nodes: tuple[Node, ...]) -> list[_Step]:
        return [self._step(node) for node in nodes]

    def _function(self, node: Call) -> _Step:
        if _is_append(node):
            return _append(self._scope[ACCUMULATOR], self._step(node.arguments[1]))
        steps = self._steps(node.children())
        constants = [step.constant for step in steps]
        if node.function == "@in" and node.overloads == (_IN_LIST,):
            members = _membership(steps[0].run, constants[1])
            if members is not None:
                return members
        call = _Calling(node)
        # As in cel-go, only conversions of constants are made here and cost nothing. Other calls of
        # constants cost each time (``_remembered``).
        if node.function in _CONVERSIONS and len(steps) == 1 and constants[0] is not VARIES:
            value = call.apply(State([], 1 << 60), (constants[0],))
            if isinstance(value, Failure):
                raise CompileError(f"program instantiation failed: {value.message}")
            return _constant(value)
        in_turn = call.in_turn or len(steps) > 2
        if node.function in ("matches", "find", "findAll"):
            steps[1] = self._pattern(steps[1])
            in_turn = in_turn or isinstance(constants[1], str)
        return _Step(_fast_call(call, steps) or call.run([step.run for step in steps], in_turn))

    def _pattern(self, step: _Step) -> _Step:
        """Return the step of a regular expression; one that is constant is compiled."""
        if not isinstance(step.constant, str):
            return _Step(_counted(step.run))
        expression = self.patterns.compiled(step.constant)
        if isinstance(expression, Failure):
            raise CompileError(f"program instantiation failed: {expression.message}")
        return step

    def _fold(self, node: Fold) -> _Step:
        range_step = self._step(node.range)
        start = self._step(node.start)
        outer = dict(self._scope)
        accumulator = self._slot(node.accumulator)
        if node.is_bind:
            # As in cel-go, the value is computed when it is first used; unused, it costs nothing.
            self._lazy[accumulator] = start.run
        before = dict(self._scope)
        variables = [self._slot(name) for name in node.variables]
        condition = self._step(node.condition)
        step = self._step(node.step).run
        self._scope = before
        result = self._step(node.result).run
        self._scope = outer
        if node.is_bind:

            def bind(state: State) -> Any:
                state.slots[accumulator] = _UNSET
                return result(state)

            return _Step(bind)
        return _Step(
            _iteration(
                range_step.run,
                accumulator,
                start.constant,
                variables,
                condition.run if condition.constant is not True else None,
                step,
                result,
            )
        )

    def _slot(self, name: str) -> int:
        self._scope[name] = self.slots
        self.slots += 1
        return self.slots - 1


_IN_LIST = "@in('A, list('A))"


def _constant(value: Any) -> _Step:
    return _Step(lambda _: value, value)


def _is_append(node: Call) -> bool:
    """Return whether a macro appends to its list here, which nothing else refers to."""
    if node.function != "_+_":
        return False
    list_, added = node.arguments
    return isinstance(list_, Ident) and list_.name == ACCUMULATOR and isinstance(added, MakeList)


def _append(index: int, item: _Step) -> _Step:
    """Return the step that appends an item to the list in a slot.

    To copy the list for each element, as ``+`` does, would take quadratic time.
    """
    constant = item.constant is not VARIES

    def append(state: State) -> Any:
        state.steps(1)
        values = state.slots[index]
        items = item.constant if constant else item.run(state)
        state.charge(1)
        if values.__class__ is Failure:
            return values
        if items.__class__ is Failure:
            return items
        values.extend(items)
        return values

    return _Step(append)


def _list(steps: list[_Step], optional: frozenset[int]) -> _Step:
    constants = [step.constant for step in steps]
    if not optional and all(constant is not VARIES for constant in constants):
        return _constant(constants)
    runs = [step.run for step in steps]

    def make(state: State) -> Any:
        values: list[Any] = []
        failure = None
        for index, run in enumerate(runs):
            value = run(state)
            if value.__class__ is Failure:
                failure = value
                break
            if index in optional:
                if type(value) is not Optional:
                    failure = Failure("cannot initialize optional list element")
                    break
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        state.charge(_LIST_COST)
        return values if failure is None else failure

    return _Step(make)


def _map(steps: list[list[_Step]], optional: frozenset[int]) -> _Step:
    runs = [(key.run, value.run) for key, value in steps]
    constant = not optional and all(
        step.constant is not VARIES for entry in steps for step in entry
    )

    def make(state: State) -> Any:
        entries: dict[Any, Any] = {}
        failure = _fill(state, entries, runs, optional)
        if not constant:
            state.charge(_MAP_COST)
        return entries if failure is None else failure

    if constant:
        value = make(State([], 0))
        return _constant(value) if not isinstance(value, Failure) else _Step(make)
    return _Step(make)


def _path(attribute: Attribute, *, test: bool = False) -> _Step:
    resolve = resolution(attribute)
    if test:
        return _Step(_presence(resolve), attribute=attribute)
    if attribute.branches is not None:
        return _Step(resolve, attribute=attribute)
    fast = plain(attribute)
    if fast is not None:
        return _Step(fast, attribute=attribute)

    def run(state: State) -> Any:
        value = resolve(state)
        state.steps(1)
        return value

    return _Step(run, attribute=attribute)


def _presence(resolve: Run) -> Run:
    """Return the run of ``has``, whose path may have an optional part."""

    def present(state: State) -> Any:
        value = resolve(state)
        return value.present if value.__class__ is Optional else value

    return present


def _fast_call(call: _Calling, steps: list[_Step]) -> Run | None:
    """Return the run of a call for which there is a faster way, else None."""
    constants = [step.constant for step in steps]
    if steps and all(constant is not VARIES for constant in constants):
        return _remembered(call, tuple(constants))
    if call.function not in ("_==_", "_!=_"):
        return None
    for index, constant in enumerate(constants):
        if type(constant) is str:
            return _text_comparison(steps[1 - index].run, constant, index == 0, call)
    return None


def _remembered(call: _Calling, arguments: tuple[Any, ...]) -> Run:
    """Return the run of a call with constant arguments: made once if small, costs each time."""
    result: Any = _UNSET
    cost = 0

    def run(state: State) -> Any:
        nonlocal result, cost
        found = result
        if found is _UNSET:
            found = call.apply(state, arguments)
            cost = call.cost(arguments, found)
            if size_of(found) <= _MOST_REMEMBERED:
                result = found
        state.charge(cost)
        return found

    return run


def _counted(run: Run) -> Run:
    """Return the run of a regular expression that is made when evaluated, its size as work."""

    def counted(state: State) -> Any:
        pattern = run(state)
        if pattern.__class__ is str:
            state.spend(program_size(compiled(pattern)))
        return pattern

    return counted


def _text_comparison(run: Run, text: str, first: bool, call: _Calling) -> Run:
    """Return ``==`` or ``!=`` with a constant string, the most frequent term of selectors."""
    equal = call.function == "_==_"
    length = len(text)

    def compare(state: State) -> Any:
        value = run(state)
        if value.__class__ is str:
            state.charge(-(-min(len(value), length) // 10))
            return (value == text) is equal
        # Other values, some of which refuse to be compared.
        arguments = (text, value) if first else (value, text)
        result = value if value.__class__ is Failure else call.apply(state, arguments)
        state.charge(call.cost(arguments, result))
        return result

    return compare


def _logic(steps: list[_Step], neutral: bool) -> _Step:
    """Return ``&&`` (neutral: true) or ``||`` (false): the other value absorbs errors."""
    runs = [step.run for step in steps]

    def run(state: State) -> Any:
        failure = None
        for term in runs:
            value = term(state)
            if value is neutral:
                continue
            if value.__class__ is bool:
                return value
            if failure is None:
                failure = value if value.__class__ is Failure else NO_OVERLOAD
        return neutral if failure is None else failure

    return _Step(run)


def _not_false(run: Run) -> _Step:
    """Return the condition on which ``all`` and ``exists`` go on: also after an error."""

    def go_on(state: State) -> Any:
        value = run(state)
        state.charge(1)
        return value is not False

    return _Step(go_on)


def _alternative(steps: list[_Step], *, unwrap: bool) -> _Step:
    first, second = (step.run for step in steps)

    def run(state: State) -> Any:
        value = first(state)
        if type(value) is not Optional:
            return value
        if value.present:
            return value.value if unwrap else value
        return second(state)

    return _Step(run)


def _membership(run: Run, values: Any) -> _Step | None:
    """Return a test for a constant list as a set, which costs nothing; None for another list."""
    if not isinstance(values, list):
        return None
    if not values:
        return _constant(False)
    if not all(type(value) in (bool, int, Uint, float, str) for value in values):
        return None
    # 1 == True in Python.
    plain = {value for value in values if type(value) is not bool}
    # An integer is in the set as a double as well, which may be rounded.
    plain |= {float(value) for value in plain if isinstance(value, int)}
    bools = {value for value in values if type(value) is bool}

    def member(state: State) -> Any:
        value = run(state)
        class_ = value.__class__
        if class_ is Failure:
            return value
        if class_ is bool:
            return value in bools
        return class_ in (str, int, float, Uint) and value in plain

    return _Step(member)


def _fill(
    state: State, entries: dict[Any, Any], runs: list[tuple[Run, Run]], optional: frozenset[int]
) -> Failure | None:
    for index, (key_run, value_run) in enumerate(runs):
        key = key_run(state)
        if isinstance(key, Failure):
            return key
        value = value_run(state)
        if isinstance(value, Failure):
            return value
        stored = key_of(key)
        if isinstance(stored, Failure):
            return stored
        if index in optional:
            if type(value) is not Optional:
                return Failure(
                    f"cannot initialize optional entry '{shown(key)}' from non-optional value"
                )
            if not value.present:
                entries.pop(stored, None)
                continue
            value = value.value
        entries[stored] = value
    return None


def _iteration(
    range_run: Run,
    accumulator: int,
    start: Any,
    variables: list[int],
    condition: Run | None,
    step: Run,
    result: Run,
) -> Run:
    """Return the loop of a macro; ``condition`` is None where it is always true."""
    one, two = variables[0], variables[1] if len(variables) == 2 else None

    def run(state: State) -> Any:
        values = range_run(state)
        if values.__class__ is Failure:
            return values
        if isinstance(values, dict):
            pairs = zip(keys(values), values.values(), strict=True)
        elif values.__class__ is list:
            pairs = zip(range(len(values)) if two is not None else values, values, strict=True)
        else:
            return Failure(f"got '{type_name(values)}', expected iterable type")
        slots = state.slots
        # A copy: macros that collect append to it.
        slots[accumulator] = start.copy() if start.__class__ in (list, dict) else start
        for key, value in pairs:
            slots[one] = key
            if two is not None:
                slots[two] = value
            if condition is not None and condition(state) is False:
                break
            slots[accumulator] = step(state)
        return result(state)

    return run


class _Calling:
    """The call of a function: which of its overloads, and what it costs."""

    def __init__(self, node: Call) -> None:
        function = FUNCTIONS[node.function]
        chosen = [o for o in function.overloads if o.name in node.overloads]
        # What the check of types chose binds only where each overload has its own implementation.
        known = len(chosen) == 1 and not function.shared
        self._candidates = chosen if known else function.overloads
        self.function = function.name
        # As cel-go plans it: a call of several functions evaluates its arguments in turn, and costs
        # nothing if one fails.
        self.in_turn = (not function.shared and not known) or function.name == "format"
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        self.cost = rule_of(function.name, overload).actual
        self._by_types: dict[tuple[type, ...], Overload] = {}

    def apply(self, state: State, arguments: tuple[Any, ...]) -> Any:
        """Return the result; count no cost."""
        classes = tuple(map(type, arguments))
        overload = self._by_types.get(classes)
        if overload is None:
            overload = next((o for o in self._candidates if o.accepts(arguments)), None)
            if overload is None:
                return no_overload(self.function, arguments)
            # Of a list or map, the first element decides, too, so its class is not enough.
            if not any(parameter.parameters for parameter in overload.parameters):
                self._by_types[classes] = overload
        if overload.takes_budget:
            return overload.implementation(*arguments, state)
        return overload.implementation(*arguments)

    def run(self, runs: list[Run], in_turn: bool) -> Run:
        # An only argument is the last one: whichever way, the call costs something if it fails.
        return self._binary(*runs) if len(runs) == 2 and not in_turn else self._in_turn(runs)

    def _binary(self, first: Run, second: Run) -> Run:
        apply, cost = self.apply, self.cost

        def call(state: State) -> Any:
            arguments = one, other = first(state), second(state)
            if one.__class__ is Failure:
                result = one
            elif other.__class__ is Failure:
                result = other
            else:
                result = apply(state, arguments)
            state.cost = total = state.cost + cost(arguments, result)
            if total > state.limit:
                raise CostExceeded(total)
            return result

        return call

    def _in_turn(self, runs: list[Run]) -> Run:
        def call(state: State) -> Any:
            arguments = []
            value: Any = None
            for run in runs:
                value = run(state)
                arguments.append(value)
                if value.__class__ is Failure:
                    break
            if len(arguments) < len(runs):
                return value  # Without its last argument, a call costs nothing.
            given = tuple(arguments)
            result = value if value.__class__ is Failure else self.apply(state, given)
            state.charge(self.cost(given, result))
            return result

        return call
