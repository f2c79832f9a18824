"""Read a PodDisruptionBudget's spec: its selector, and numbers or percentages."""

from __future__ import annotations

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.objects import Pod, PodDisruptionBudget
from podsched.api.selectors import NOTHING, Selector, SelectorError, compile_selector


def selector_of(budget: PodDisruptionBudget) -> Selector:
    """Return the budget's selector; it selects nothing if it is missing or invalid."""
    if not budget.spec.HasField("selector"):
        return NOTHING
    try:
        return compile_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING


def needs_no_budget(pod: Pod) -> bool:
    """Return whether a pod can be evicted regardless of budgets: not running, or being deleted."""
    return is_finished(pod) or pod.status.phase == "Pending" or is_terminating(pod)


def scaled_value(text: str, total: int) -> int:
    """Return a number, or a percentage of ``total`` rounded up (GetScaledValueFromIntOrPercent).

    0 for "" and "%". Raises ValueError for any other text that is not a number: only a manifest
    that no server has checked has one.
    """
    number = int(text.removesuffix("%") or 0)
    return -(-number * total // 100) if text.endswith("%") else number
