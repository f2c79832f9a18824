"""What can go wrong with a CEL expression."""

from __future__ import annotations


class CompileError(Exception):
    """The expression is not CEL, or not of the right type: a fault of its author."""


class EvaluationError(Exception):
    """The expression failed for this device: a fault of the expression or of the device."""


def error_at(text: str, position: int, message: str) -> CompileError:
    """Return the error with its line and column."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return CompileError(f"ERROR: <input>:{line}:{column}: {message}")
