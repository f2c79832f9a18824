"""Conditions of the metav1 kind (apimachinery/pkg/apis/meta/v1/validation)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from podsched.api import objects as o
from podsched.api.names import qualified_name
from podsched.api.validation.place import Place

_MOST_REASON_BYTES: Final = 1024
_MOST_MESSAGE_BYTES: Final = 32 << 10
_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. "
    "'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex "
    f"used for validation is '{_REASON.pattern}')"
)


def validate_conditions(at: Place, conditions: Sequence[o.Condition], most: int) -> None:
    """Validate conditions (apimachinery/pkg/apis/meta/v1/validation, ValidateConditions)."""
    seen: set[str] = set()
    for each, condition in at.each(conditions, most):
        each("type").once(condition.type, seen)
        each("type").rule(condition.type, qualified_name)
        if condition.status not in _STATUSES:
            each("status").not_supported(condition.status, _STATUSES)
        if condition.observed_generation < 0:
            reason = "must be greater than or equal to zero"
            each("observedGeneration").invalid(condition.observed_generation, reason)
        each("lastTransitionTime").present(condition.HasField("last_transition_time"))
        _check_reason(each("reason"), condition.reason)
        each("message").within(len(condition.message.encode()), _MOST_MESSAGE_BYTES)


def _check_reason(at: Place, reason: str) -> None:
    short = at.present(reason) and at.within(len(reason), _MOST_REASON_BYTES)
    if short and _REASON.fullmatch(reason) is None:
        at.invalid(reason, _REASON_RULE)
