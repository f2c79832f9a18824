"""What can go wrong with a CEL expression."""

from __future__ import annotations


class CompileError(Exception):
    """The expression is not CEL, or not of the right type: a fault of its author.

    ``position``: where in the text, as an offset; None for the expression as a whole.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position

    def shown(self, text: str) -> str:
        """Return the message with the line and column in the text."""
        if self.position is None:
            return str(self)
        line = text.count("\n", 0, self.position) + 1
        column = self.position - text.rfind("\n", 0, self.position)
        return f"ERROR: <input>:{line}:{column}: {self}"


class EvaluationError(Exception):
    """The expression failed for this device: a fault of the expression or of the device."""
