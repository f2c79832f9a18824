"""ResourceQuotas (ValidateResourceQuota of pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api.field_errors import FieldError, invalid, required
from podsched.api.objects import ResourceQuota, ResourceQuotaSpec
from podsched.api.quota import COUNT_PREFIX, is_quota_resource
from podsched.api.quota_scopes import (
    BEST_EFFORT,
    NOT_BEST_EFFORT,
    NOT_TERMINATING,
    PRIORITY_CLASS,
    SCOPES,
    TERMINATING,
    ScopeExpression,
    expressions_of,
    selector_expressions,
)
from podsched.api.resources import CPU, PODS
from podsched.api.validation.meta import IMMUTABLE, bounded, bounded_items
from podsched.api.validation.names import qualified_name
from podsched.api.validation.resource_lists import parse_or_report

#: Of which scopes that exclude one another a quota may have one.
_CONFLICTING = ({BEST_EFFORT, NOT_BEST_EFFORT}, {TERMINATING, NOT_TERMINATING})
_COMPUTE = frozenset(
    {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_NOT_EXISTS = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_NO_VALUES = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
_VALUES = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
_NOT_COUNTED = (
    "is not counted here; what is: count/RESOURCE[.GROUP], pods, services, configmaps, "
    "replicationcontrollers, persistentvolumeclaims, resourcequotas, cpu, memory and "
    "ephemeral-storage (also as requests. and limits.), hugepages-SIZE, requests.DOMAIN/DEVICE, "
    "requests.storage, and CLASS.storageclass.storage.k8s.io/ with requests.storage or "
    "persistentvolumeclaims"
)


def validate_resource_quota(item: ResourceQuota) -> list[FieldError]:
    """Validate what is limited, and how much of it."""
    spec = item.spec
    found = _quantities(spec.hard, "spec.hard")
    found += bounded("spec.scopes", spec.scopes) or _scopes(spec)
    if spec.HasField("scope_selector"):
        found += _scope_selector(spec)
    return found


def validate_resource_quota_update(item: ResourceQuota, old: ResourceQuota) -> list[FieldError]:
    """Validate that the scopes stay: what is used was counted by them."""
    if set(item.spec.scopes) == set(old.spec.scopes):
        return []
    return [invalid("spec.scopes", list(item.spec.scopes), IMMUTABLE)]


def _scopes(spec: ResourceQuotaSpec) -> list[FieldError]:
    path, shown = "spec.scopes", list(spec.scopes)
    found: list[FieldError] = []
    for scope in dict.fromkeys(spec.scopes):
        if scope not in SCOPES:
            found.append(invalid(path, shown, "unsupported scope"))
        found += _of_resources(spec, scope, path, shown)
    return found + _conflicts(set(spec.scopes), path, shown)


def _scope_selector(spec: ResourceQuotaSpec) -> list[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    written = selector_expressions(spec)
    found: list[FieldError] = []
    for _, each in bounded_items(path, written, found):
        if not (isinstance(each, Mapping) and _is_expression(each)):
            found.append(invalid(path, str(each), "must have a scopeName, an operator and values"))
    if found:
        return found
    expressions = expressions_of(spec)[len(spec.scopes) :]
    shown = [each.scope for each in expressions]
    for _, each in bounded_items(path, expressions, found):
        if each.scope not in SCOPES:
            found.append(invalid(f"{path}.scopeName", each.scope, "unsupported scope"))
        found += _of_resources(spec, each.scope, path, shown)
        found += _operator(each, path)
    return found + _conflicts(set(shown), path, shown)


def _is_expression(written: Mapping[str, object]) -> bool:
    values = written.get("values", [])
    return (
        written.keys() <= {"scopeName", "operator", "values"}
        and isinstance(written.get("scopeName"), str)
        and isinstance(written.get("operator"), str)
        and isinstance(values, list)
        and all(isinstance(value, str) for value in values)
    )


def _operator(expression: ScopeExpression, path: str) -> list[FieldError]:
    found = []
    scope, operator, values = expression
    if scope in SCOPES and scope != PRIORITY_CLASS and operator != "Exists":
        found.append(invalid(f"{path}.operator", operator, _NOT_EXISTS))
    if operator in ("In", "NotIn"):
        if not values:
            found.append(required(f"{path}.values", _NO_VALUES))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            found.append(invalid(f"{path}.values", list(values), _VALUES))
    else:
        found.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return found


def _of_resources(
    spec: ResourceQuotaSpec, scope: str, path: str, shown: list[str]
) -> list[FieldError]:
    """Return an error for each limit on what is not in the scope: all but pods and what they use.

    Counts of objects and devices are not looked at, as in Kubernetes.
    """
    may = {PODS} if scope == BEST_EFFORT else {PODS, *_COMPUTE}
    return [
        invalid(path, shown, "unsupported scope applied to resource")
        for name in sorted(spec.hard)
        if scope in SCOPES and _is_standard(name) and name not in may
    ]


def _is_standard(name: str) -> bool:
    """Return whether Kubernetes names the resource itself (IsStandardQuotaResourceName)."""
    return "/" not in name and "hugepages-" not in name


def _conflicts(scopes: set[str], path: str, shown: list[str]) -> list[FieldError]:
    return [invalid(path, shown, "conflicting scopes") for pair in _CONFLICTING if pair <= scopes]


def validate_resource_quota_status(item: ResourceQuota) -> list[FieldError]:
    """Validate what is used."""
    status = item.status
    return _quantities(status.hard, "status.hard") + _quantities(status.used, "status.used")


def _quantities(quantities: Mapping[str, str], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for _, name in bounded_items(path, quantities, found):
        text = quantities[name]
        here = f"{path}[{name}]"
        found += [invalid(here, name, reason) for reason in qualified_name(name)]
        if not is_quota_resource(name):
            found.append(invalid(here, name, _NOT_COUNTED))
        amount = parse_or_report(here, text, found)
        if amount is None:
            continue
        if amount < 0:
            found.append(invalid(here, text, "must be greater than or equal to 0"))
        elif not _may_be_divided(name) and amount.denominator != 1:
            found.append(invalid(here, text, "must be an integer"))
    return found


def _may_be_divided(name: str) -> bool:
    return not name.startswith(COUNT_PREFIX) and name.rpartition(".")[2] == CPU
