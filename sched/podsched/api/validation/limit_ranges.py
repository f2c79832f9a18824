"""LimitRanges (ValidateLimitRange of pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from podsched.api.limit_ranges import CLAIM, CONTAINER, POD, ratio_text
from podsched.api.names import qualified_name
from podsched.api.objects import LimitRange, LimitRangeItem
from podsched.api.validation.place import Place
from podsched.api.validation.resource_lists import (
    container_resource_name,
    is_huge_page,
    may_overcommit,
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


def validate_limit_range(at: Place, limit_range: LimitRange) -> None:
    """Validate types, resources, and that the bounds and defaults of each fit together."""
    seen: set[str] = set()
    for each, item in at("spec.limits").each(limit_range.spec.limits):
        _check_type(each("type"), item.type)
        each("type").once(item.type, seen)
        _check_item(each, item)


def _check_type(at: Place, name: str) -> None:
    known = "/" in name or name in (CONTAINER, POD, CLAIM)
    if at.rule(name, qualified_name) and not known:
        at.invalid(name, "must be a standard limit type or fully qualified")


def _check_item(at: Place, item: LimitRangeItem) -> None:
    amounts: dict[str, dict[str, Fraction]] = {}
    for part, field in _PARTS.items():
        quantities: Mapping[str, str] = getattr(item, field)
        if item.type == POD and part in ("default", "defaultRequest"):
            if quantities:
                at(part).forbidden("may not be specified when `type` is 'Pod'")
            quantities = {}
        amounts[part] = {}
        for name in at(part).keys(quantities):
            _check_resource(at(part)[name], item.type, name)
            amount = parse_or_report(at(part)[name], quantities[name])
            if amount is not None:
                amounts[part][name] = amount
    if item.type == CLAIM and "storage" not in item.min and "storage" not in item.max:
        reason = "either minimum or maximum storage value is required, but neither was provided"
        at("limits").required(reason)
    for name in sorted({name for part in amounts.values() for name in part}):
        _check_order(at, item, name, amounts)
        _check_ratio(at, item, name, amounts)


def _check_resource(at: Place, kind: str, name: str) -> None:
    if kind in (CONTAINER, POD):
        container_resource_name(at, name)
    elif at.rule(name, qualified_name) and not (
        "/" in name or name in _STANDARD or is_huge_page(name)
    ):
        at.invalid(name, "must be a standard resource type or fully qualified")


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


def _check_order(
    at: Place, item: LimitRangeItem, name: str, amounts: Mapping[str, _Amounts]
) -> None:
    def text(part: str) -> str:
        quantities: Mapping[str, str] = getattr(item, _PARTS[part])
        return quantities[name]

    for wrong, shown, small, large, first, second in _ORDER:
        less, more = amounts[small].get(name), amounts[large].get(name)
        if less is not None and more is not None and less > more:
            reason = f"{first} {text(small)} is greater than {second} {text(large)}"
            at(wrong)[name].invalid(text(shown), reason)
    limit, request = amounts["default"].get(name), amounts["defaultRequest"].get(name)
    if limit is None or request is None or may_overcommit(name) or limit == request:
        return
    asked = text("defaultRequest")
    reason = f"default value {text('default')} must equal to defaultRequest value {asked} in {name}"
    at("defaultRequest")[name].invalid(asked, reason)


def _check_ratio(
    at: Place, item: LimitRangeItem, name: str, amounts: Mapping[str, _Amounts]
) -> None:
    ratio = amounts["maxLimitRequestRatio"].get(name)
    if ratio is None:
        return
    here, text = at("maxLimitRequestRatio")[name], item.max_limit_request_ratio[name]
    if ratio < 1:
        here.invalid(text, f"ratio {text} is less than 1")
    least, most = amounts["min"].get(name), amounts["max"].get(name)
    if least and most is not None and ratio > most / least:
        reason = f"ratio {text} is greater than max/min = {ratio_text(most / least)}"
        here.invalid(text, reason)
