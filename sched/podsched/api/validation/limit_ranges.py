"""LimitRanges (ValidateLimitRange of pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from podsched.api.field_errors import FieldError, duplicate, forbidden, invalid, required
from podsched.api.limit_ranges import CLAIM, CONTAINER, POD
from podsched.api.objects import LimitRange, LimitRangeItem
from podsched.api.validation.meta import bounded_items
from podsched.api.validation.names import qualified_name
from podsched.api.validation.resource_lists import (
    container_resource_name,
    is_huge_page,
    is_native,
    parse_or_report,
)

_STANDARD = frozenset({
    "cpu", "memory", "ephemeral-storage", "storage", "requests.cpu", "requests.memory",
    "requests.storage", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
    "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers",
    "secrets", "configmaps", "persistentvolumeclaims", "services.nodeports",
    "services.loadbalancers",
})  # fmt: skip
_PARTS = {
    "max": "max",
    "min": "min",
    "default": "default",
    "defaultRequest": "default_request",
    "maxLimitRequestRatio": "max_limit_request_ratio",
}

_Amounts = Mapping[str, Fraction]


def validate_limit_range(limit_range: LimitRange) -> list[FieldError]:
    """Validate types, resources, and that the bounds and defaults of each fit together."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in bounded_items("spec.limits", limit_range.spec.limits, errors):
        path = f"spec.limits[{index}]"
        errors += _type_errors(f"{path}.type", item.type)
        if item.type in seen:
            errors.append(duplicate(f"{path}.type", item.type))
        seen.add(item.type)
        errors += _item_errors(path, item)
    return errors


def _type_errors(path: str, name: str) -> Iterator[FieldError]:
    found = qualified_name(name)
    yield from (invalid(path, name, reason) for reason in found)
    if not found and "/" not in name and name not in (CONTAINER, POD, CLAIM):
        yield invalid(path, name, "must be a standard limit type or fully qualified")


def _item_errors(path: str, item: LimitRangeItem) -> list[FieldError]:
    errors: list[FieldError] = []
    amounts: dict[str, dict[str, Fraction]] = {}
    for part, field in _PARTS.items():
        quantities: Mapping[str, str] = getattr(item, field)
        if item.type == POD and part in ("default", "defaultRequest"):
            if quantities:
                reason = "may not be specified when `type` is 'Pod'"
                errors.append(forbidden(f"{path}.{part}", reason))
            quantities = {}
        amounts[part] = {}
        for _, name in bounded_items(f"{path}.{part}", quantities, errors):
            text = quantities[name]
            here = f"{path}.{part}[{name}]"
            errors += _resource_errors(here, item.type, name)
            amount = parse_or_report(here, text, errors)
            if amount is not None:
                amounts[part][name] = amount
    if item.type == CLAIM and "storage" not in item.min and "storage" not in item.max:
        reason = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", reason))
    for name in sorted({name for part in amounts.values() for name in part}):
        errors += _order_errors(path, item, name, amounts)
        errors += _ratio_errors(path, item, name, amounts)
    return errors


def _resource_errors(path: str, kind: str, name: str) -> list[FieldError]:
    if kind in (CONTAINER, POD):
        return container_resource_name(path, name)
    errors = [invalid(path, name, reason) for reason in qualified_name(name)]
    if not errors and "/" not in name and name not in _STANDARD and not is_huge_page(name):
        return [invalid(path, name, "must be a standard resource type or fully qualified")]
    return errors


#: Field that is wrong, whose value is shown, the smaller and the larger, and what they are called.
_ORDER = (
    ("min", "min", "min", "max", "min value", "max value"),
    ("defaultRequest", "defaultRequest", "min", "defaultRequest", "min value",
     "default request value"),
    ("defaultRequest", "defaultRequest", "defaultRequest", "max", "default request value",
     "max value"),
    ("defaultRequest", "defaultRequest", "defaultRequest", "default", "default request value",
     "default limit value"),
    ("default", "min", "min", "default", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)  # fmt: skip


def _order_errors(
    path: str, item: LimitRangeItem, name: str, amounts: Mapping[str, _Amounts]
) -> Iterator[FieldError]:
    def text(part: str) -> str:
        quantities: Mapping[str, str] = getattr(item, _PARTS[part])
        return quantities[name]

    for at, shown, small, large, first, second in _ORDER:
        less, more = amounts[small].get(name), amounts[large].get(name)
        if less is not None and more is not None and less > more:
            reason = f"{first} {text(small)} is greater than {second} {text(large)}"
            yield invalid(f"{path}.{at}[{name}]", text(shown), reason)
    limit, request = amounts["default"].get(name), amounts["defaultRequest"].get(name)
    overcommits = is_native(name) and not is_huge_page(name)
    if not overcommits and limit is not None and request is not None and limit != request:
        reason = (
            f"default value {text('default')} must equal to "
            f"defaultRequest value {text('defaultRequest')} in {name}"
        )
        yield invalid(f"{path}.defaultRequest[{name}]", text("defaultRequest"), reason)


def _ratio_errors(
    path: str, item: LimitRangeItem, name: str, amounts: Mapping[str, _Amounts]
) -> Iterator[FieldError]:
    ratio = amounts["maxLimitRequestRatio"].get(name)
    if ratio is None:
        return
    here, text = f"{path}.maxLimitRequestRatio[{name}]", item.max_limit_request_ratio[name]
    if ratio < 1:
        yield invalid(here, text, f"ratio {text} is less than 1")
    least, most = amounts["min"].get(name), amounts["max"].get(name)
    if least and most is not None and ratio > most / least:
        reason = f"ratio {text} is greater than max/min = {float(most / least):.6f}"
        yield invalid(here, text, reason)
