"""Results of selectors, each evaluated once for a device until that device changes.

A usual selector takes microseconds. One that may take long, or that was not compiled yet, can be
evaluated in advance, in a thread; a scheduler that does so refuses to evaluate it in a decision
(``holds_back``).
"""

from __future__ import annotations

from typing import Final

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.api.device_selectors import Device as DeviceView
from podsched.plugins.dynamic_resources.candidates import Selector, SelectorCompiler
from podsched.plugins.dynamic_resources.errors import AllocationAborted

#: Max results that are remembered, and expressions; a result takes about 150 bytes.
_MOST_RESULTS: Final = 400_000
_MOST_EXPRESSIONS: Final = 256
#: Selectors of at most this estimated cost are quick: they take up to 3 ms.
_QUICK: Final = 10_000

_Result = bool | EvaluationError


class RememberedSelectors:
    """Compiles selectors that remember their results; a ``SelectorCompiler``."""

    def __init__(self, compile_selector: SelectorCompiler) -> None:
        self._compile = compile_selector
        self._known: dict[str, _Remembered | CompileError] = {}
        self._count = 0
        #: Whether to raise AllocationAborted instead of doing what may take long.
        self.holds_back = False

    def is_quick(self, expression: str) -> bool:
        """Whether the selector is compiled, and takes at most some milliseconds."""
        known = self._known.get(expression)
        if known is None:
            return False
        return isinstance(known, CompileError) or known.estimated_cost <= _QUICK

    def compiled(self, expression: str) -> _Remembered | CompileError:
        """Compile an expression if it was not; this may take 0.2 s."""
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
        """Whether the result for a device is remembered."""
        known = self._known.get(expression)
        return isinstance(known, CompileError) or (known is not None and known.knows(device))

    def evaluate(self, expression: str, device: DeviceView) -> None:
        """Evaluate a selector for a device."""
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
        """Forget all results, such as those of devices that are gone."""
        self._known.clear()
        self._count = 0

    def count(self) -> None:
        """Count one more result; forget all if they are too many."""
        self._count += 1
        if self._count >= _MOST_RESULTS:
            self.forget()


class _Remembered:
    """A selector with its results, by the identity of the device's view, which never changes."""

    def __init__(self, selector: Selector, owner: RememberedSelectors) -> None:
        self._selector = selector
        self._owner = owner
        self._results: dict[int, tuple[DeviceView, _Result]] = {}

    @property
    def estimated_cost(self) -> int:
        return self._selector.estimated_cost

    def knows(self, device: DeviceView) -> bool:
        """Whether the result for a device is remembered."""
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
