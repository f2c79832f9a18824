"""What can go wrong with a CEL expression."""

from __future__ import annotations


class CompileError(Exception):
    """The expression is not CEL, or not of the right type: a fault of its author."""


class EvaluationError(Exception):
    """The expression failed for this device: a fault of the expression or of the device."""
