"""Compiles CEL selectors of devices, and remembers their results until a device changes.

Most selectors take microseconds. Slow ones, and the compilation of any, can be done ahead in a
thread. A scheduler that does this sets ``holds_back``: then a decision raises AllocationAborted
instead of waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, Protocol

from podsched.api import device_selectors
from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.api.device_selectors import Device as DeviceView
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from podsched.plugins.dynamic_resources.model import Features

#: Max compiled expressions that are kept; Kubernetes keeps 10. Compiling one takes as long as
#: hundreds of evaluations. The largest take 3.6 MB, usual ones 30 KB.
_KEPT: Final = 64
#: Max results, and expressions, that are remembered; a result takes about 150 bytes.
_MOST_RESULTS: Final = 400_000
_MOST_EXPRESSIONS: Final = 256
#: Selectors of at most this estimated cost are quick: they take up to 3 ms.
_QUICK: Final = 10_000

_Result = bool | EvaluationError


class Selector(Protocol):
    """A compiled CEL expression.

    ``estimated_cost``: in the units of Kubernetes' CEL cost estimation; one takes about 0.3 µs.
    """

    @property
    def estimated_cost(self) -> int: ...

    def matches(self, device: DeviceView) -> bool:
        """Return whether the device matches. Raises EvaluationError."""


#: Returns the selector of an expression. Raises CompileError.
SelectorCompiler = Callable[[str], Selector]


def selector_compiler(features: Features) -> SelectorCompiler:
    """Return a function that compiles selectors with these feature gates."""
    gates = device_selectors.Features(features.consumable_capacity, features.list_type_attributes)
    return partial(_compile, gates)


def quick_selector(features: Features, expression: str) -> Selector:
    """Compile a selector, also while decisions are held back.

    Raises CompileError; AllocationAborted if evaluating it takes more than some milliseconds.
    """
    selector = selector_compiler(features)(expression)
    if selector.estimated_cost > _QUICK:
        raise AllocationAborted
    return selector


@lru_cache(_KEPT)
def _compile(gates: device_selectors.Features, expression: str) -> device_selectors.Selector:
    return device_selectors.compile_selector(expression, features=gates)


class RememberedSelectors:
    """A ``SelectorCompiler`` whose selectors remember their results."""

    def __init__(self, compile_selector: SelectorCompiler) -> None:
        self._compile = compile_selector
        self._known: dict[str, _Remembered | CompileError] = {}
        self._count = 0
        #: Whether to raise AllocationAborted instead of compiling or evaluating slow selectors.
        self.holds_back = False

    def is_quick(self, expression: str) -> bool:
        """Return whether the selector is compiled, and takes at most some milliseconds."""
        known = self._known.get(expression)
        if known is None:
            return False
        return isinstance(known, CompileError) or known.estimated_cost <= _QUICK

    def compiled(self, expression: str) -> _Remembered | CompileError:
        """Return the selector of an expression, compiled if necessary, which may take 0.2 s."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= _MOST_EXPRESSIONS:
                self.forget()
            try:
                found = _Remembered(self._compile(expression), self)
            except CompileError as error:
                found = error
            self._known[expression] = found
        return found

    def has_evaluated(self, expression: str, device: DeviceView) -> bool:
        """Return whether the result for a device is remembered."""
        known = self._known.get(expression)
        return isinstance(known, CompileError) or (known is not None and known.knows(device))

    def evaluate(self, expression: str, device: DeviceView) -> None:
        """Evaluate a selector for a device and remember the result, or that it does not compile."""
        selector = self.compiled(expression)
        if isinstance(selector, _Remembered):
            selector.find(device)

    def __call__(self, expression: str) -> Selector:
        """Return the selector of an expression. Raises CompileError, AllocationAborted."""
        found = self._known.get(expression)
        if found is None:
            if self.holds_back:
                raise AllocationAborted
            found = self.compiled(expression)
        if isinstance(found, CompileError):
            raise found
        return found

    def forget(self) -> None:
        """Forget all results, among them those of devices that no longer exist."""
        self._known.clear()
        self._count = 0

    def count(self) -> None:
        """Count one more result; forget all if they are too many."""
        self._count += 1
        if self._count >= _MOST_RESULTS:
            self.forget()


class _Remembered:
    """A selector with its results by ``id`` of the device's view.

    A view never changes. The results keep a reference to it, so that its ``id`` is not reused.
    """

    def __init__(self, selector: Selector, owner: RememberedSelectors) -> None:
        self._selector = selector
        self._owner = owner
        self._results: dict[int, tuple[DeviceView, _Result]] = {}

    @property
    def estimated_cost(self) -> int:
        return self._selector.estimated_cost

    def knows(self, device: DeviceView) -> bool:
        """Return whether the result for a device is remembered."""
        return id(device) in self._results

    def find(self, device: DeviceView) -> _Result:
        """Evaluate for a device and remember the result."""
        result: _Result
        try:
            result = self._selector.matches(device)
        except EvaluationError as error:
            result = error
        self._results[id(device)] = (device, result)
        self._owner.count()
        return result

    def matches(self, device: DeviceView) -> bool:
        known = self._results.get(id(device))
        if known is None and self._owner.holds_back and self.estimated_cost > _QUICK:
            raise AllocationAborted
        result = self.find(device) if known is None else known[1]
        if isinstance(result, EvaluationError):
            raise result
        return result
