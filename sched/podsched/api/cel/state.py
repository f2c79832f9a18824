"""The state of one evaluation of a CEL expression: its variables and its cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podsched.api.cel.errors import EvaluationError
from podsched.api.cel.values import Budget


class CostExceeded(EvaluationError):
    """The evaluation cost more than its limit."""

    def __init__(self, cost: int) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
        self.cost = cost


class State(Budget):
    """One evaluation: values of the variables, cost so far, work that costs nothing."""

    __slots__ = ("cost", "limit", "slots")

    def __init__(self, slots: list[Any], limit: int) -> None:
        self.slots = slots
        self.cost = 0
        self.limit = limit
        self.left = self.MOST

    def charge(self, cost: int) -> None:
        """Count the cost of a call. Raises CostExceeded."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded(self.cost)

    def steps(self, count: int) -> None:
        """Count steps that cost one each. Raises CostExceeded."""
        self.cost += count
        if self.cost > self.limit:
            raise CostExceeded(self.limit + 1)


#: A compiled part of an expression.
Run = Callable[[State], Any]
