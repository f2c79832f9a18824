"""Taints of devices: those in ResourceSlices, and those that DeviceTaintRules add.

Source: resourceslice/tracker of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.objects import DeviceTaintRule, ResourceSlice, copy_of


def rule_matches(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Whether a rule selects a device; a rule without a selector selects none."""
    if not rule.spec.HasField("device_selector"):
        return False
    wanted = rule.spec.device_selector
    return (
        (not wanted.HasField("driver") or wanted.driver == driver)
        and (not wanted.HasField("pool") or wanted.pool == pool)
        and (not wanted.HasField("device") or wanted.device == device)
    )


def rules_for_slice(
    rules: Iterable[DeviceTaintRule], piece: ResourceSlice
) -> tuple[DeviceTaintRule, ...]:
    """Return the rules that select devices of a slice."""
    driver, pool = piece.spec.driver, piece.spec.pool.name
    return tuple(
        rule
        for rule in rules
        if any(rule_matches(rule, driver, pool, device.name) for device in piece.spec.devices)
    )


def with_rules(piece: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    """Return a slice whose devices have the taints of the rules after their own."""
    made = copy_of(piece)
    driver, pool = piece.spec.driver, piece.spec.pool.name
    for device in made.spec.devices:
        device.taints.extend(
            rule.spec.taint for rule in rules if rule_matches(rule, driver, pool, device.name)
        )
    return made
