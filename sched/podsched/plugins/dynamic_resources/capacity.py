"""Computes how much of a device's capacity a request consumes, and whether that is free.

Source: consumable_capacity.go of Kubernetes v1.36 (structured/internal/incubating).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from podsched.plugins.dynamic_resources.model import Amount, DeviceCapacity, RequestPolicy

Amounts = Mapping[str, Amount]


def consumed_capacity(
    requested: Amounts | None, capacity: Mapping[str, DeviceCapacity]
) -> dict[str, Amount] | None:
    """Return the amount that a request consumes of each capacity of a device.

    Return None if the device lacks a requested capacity, or if its policy forbids the amount.
    """
    requested = requested or {}
    if requested.keys() - capacity.keys():
        return None
    consumed = {}
    for name, offered in capacity.items():
        consumed[name] = amount = _consumed(requested.get(name), offered)
        if offered.policy is not None and not _is_allowed(amount, offered.policy):
            return None
    return consumed


def fits(
    needed: Amounts, capacity: Mapping[str, DeviceCapacity], in_use: Amounts, taken: Amounts
) -> bool:
    """Return whether the needed amounts are free beside the amounts in use and taken."""
    for name, amount in needed.items():
        total = capacity[name].value
        for used in (in_use.get(name), taken.get(name)):
            if used:
                amount += used
        # A request without an amount needs the whole capacity, which is the same object. Fractions
        # are slow to compare.
        if amount is not total and amount > total:
            return False
    return True


def _consumed(requested: Amount | None, capacity: DeviceCapacity) -> Amount:
    """Return the requested amount, rounded up to one that the policy allows if there is one.

    Without a requested amount it is the policy's default, else the whole capacity.
    """
    policy = capacity.policy
    if requested is None:
        default = policy.default if policy else None
        return capacity.value if default is None else default
    if policy is None:
        return requested
    if policy.minimum is not None:
        return _rounded_up(requested, policy, policy.minimum)
    return min((valid for valid in policy.valid_values if valid >= requested), default=requested)


def _rounded_up(requested: Amount, policy: RequestPolicy, minimum: Amount) -> Amount:
    if requested < minimum:
        return minimum
    if policy.step is None:
        return requested
    # In whole units: Kubernetes computes with Quantity.Value(), which rounds up.
    least, step = math.ceil(minimum), math.ceil(policy.step)
    steps = -(-(math.ceil(requested) - least) // step)
    return least + steps * step


def _is_allowed(amount: Amount, policy: RequestPolicy) -> bool:
    if amount == policy.default:
        return True
    if not policy.has_range:
        return not policy.valid_values or amount in policy.valid_values
    if policy.maximum is not None and amount > policy.maximum:
        return False
    if policy.step is None:
        return True
    return (math.ceil(amount) - math.ceil(policy.minimum or 0)) % math.ceil(policy.step) == 0
