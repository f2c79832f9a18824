"""Results of selectors, each evaluated once for a device until that device changes."""

from __future__ import annotations

from typing import Final

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.api.device_selectors import Device as DeviceView
from podsched.plugins.dynamic_resources.candidates import Selector, SelectorCompiler

#: Max results that are remembered, and expressions; a result takes about 150 bytes.
_MOST_RESULTS: Final = 400_000
_MOST_EXPRESSIONS: Final = 256

_Result = bool | EvaluationError


class RememberedSelectors:
    """Compiles selectors that remember their results; a ``SelectorCompiler``."""

    def __init__(self, compile_selector: SelectorCompiler) -> None:
        self._compile = compile_selector
        self._known: dict[str, Selector | CompileError] = {}
        self._count = 0

    def __call__(self, expression: str) -> Selector:
        """Return the selector of an expression. Raises CompileError."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= _MOST_EXPRESSIONS:
                self.forget()
            try:
                found = _Remembered(self._compile(expression), self)
            except CompileError as error:
                found = error
            self._known[expression] = found
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

    def matches(self, device: DeviceView) -> bool:
        known = self._results.get(id(device))
        if known is None:
            result: _Result
            try:
                result = self._selector.matches(device)
            except EvaluationError as error:
                result = error
            known = self._results[id(device)] = (device, result)
            self._owner.count()
        if isinstance(known[1], EvaluationError):
            raise known[1]
        return known[1]
