"""ResourceQuotas (ValidateResourceQuota of pkg/apis/core/validation)."""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api.names import qualified_name
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
from podsched.api.validation.place import Place
from podsched.api.validation.resource_lists import not_negative

#: Scopes that exclude each other: a quota may have one of each pair.
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
    "is not counted here; what is: count/RESOURCE[.GROUP], pods, services, services.nodeports, "
    "services.loadbalancers, configmaps, secrets, replicationcontrollers, "
    "persistentvolumeclaims, resourcequotas, cpu, memory and "
    "ephemeral-storage (also as requests. and limits.), hugepages-SIZE, requests.DOMAIN/DEVICE, "
    "requests.storage, and CLASS.storageclass.storage.k8s.io/ with requests.storage or "
    "persistentvolumeclaims"
)


def validate_resource_quota(at: Place, item: ResourceQuota) -> None:
    """Validate what is limited, and how much of it."""
    spec, at = item.spec, at("spec")
    _check_quantities(at("hard"), spec.hard)
    if at("scopes").bounded(spec.scopes):
        _check_scopes(at("scopes"), spec)
    if spec.HasField("scope_selector"):
        _check_selector(at("scopeSelector.matchExpressions"), spec)


def validate_resource_quota_update(at: Place, new: ResourceQuota, old: ResourceQuota) -> None:
    """Validate that the scopes stay: what is used was counted by them."""
    scopes = new.spec.scopes
    at("spec.scopes").fixed(set(scopes), set(old.spec.scopes), list(scopes))


def _check_scopes(at: Place, spec: ResourceQuotaSpec) -> None:
    shown = list(spec.scopes)
    for scope in dict.fromkeys(spec.scopes):
        if scope not in SCOPES:
            at.invalid(shown, "unsupported scope")
        _check_resources(at, spec, scope, shown)
    _check_conflicts(at, shown)


def _check_selector(at: Place, spec: ResourceQuotaSpec) -> None:
    written, known = selector_expressions(spec), len(at.errors)
    for _, each in at.each(written):
        if not (isinstance(each, Mapping) and _is_expression(each)):
            at.invalid(str(each), "must have a scopeName, an operator and values")
    if len(at.errors) > known:
        return
    expressions = expressions_of(spec)[len(spec.scopes) :]
    shown = [each.scope for each in expressions]
    for _, each in at.each(expressions):
        if each.scope not in SCOPES:
            at("scopeName").invalid(each.scope, "unsupported scope")
        _check_resources(at, spec, each.scope, shown)
        _check_operator(at, each)
    _check_conflicts(at, shown)


def _is_expression(written: Mapping[str, object]) -> bool:
    values = written.get("values", [])
    return (
        written.keys() <= {"scopeName", "operator", "values"}
        and isinstance(written.get("scopeName"), str)
        and isinstance(written.get("operator"), str)
        and isinstance(values, list)
        and all(isinstance(value, str) for value in values)
    )


def _check_operator(at: Place, expression: ScopeExpression) -> None:
    scope, operator, values = expression
    if scope in SCOPES and scope != PRIORITY_CLASS and operator != "Exists":
        at("operator").invalid(operator, _NOT_EXISTS)
    if operator in ("In", "NotIn"):
        at("values").present(values, _NO_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            at("values").invalid(list(values), _VALUES)
    else:
        at("operator").invalid(operator, "not a valid selector operator")


def _check_resources(at: Place, spec: ResourceQuotaSpec, scope: str, shown: list[str]) -> None:
    """Check that only what is in the scope is limited: pods and what they use.

    Counts of objects and devices are not looked at, as in Kubernetes.
    """
    may = {PODS} if scope == BEST_EFFORT else {PODS, *_COMPUTE}
    for name in spec.hard:
        if scope in SCOPES and _is_standard(name) and name not in may:
            at.invalid(shown, "unsupported scope applied to resource")


def _is_standard(name: str) -> bool:
    """Return whether Kubernetes names the resource itself (IsStandardQuotaResourceName)."""
    return "/" not in name and "hugepages-" not in name


def _check_conflicts(at: Place, scopes: list[str]) -> None:
    for pair in _CONFLICTING:
        if pair <= set(scopes):
            at.invalid(scopes, "conflicting scopes")


def validate_resource_quota_status(at: Place, item: ResourceQuota) -> None:
    """Validate what is used."""
    _check_quantities(at("status.hard"), item.status.hard)
    _check_quantities(at("status.used"), item.status.used)


def _check_quantities(at: Place, quantities: Mapping[str, str]) -> None:
    for name in at.keys(quantities):
        here = at[name]
        here.rule(name, qualified_name)
        if not is_quota_resource(name):
            here.invalid(name, _NOT_COUNTED)
        not_negative(here, quantities[name], whole=not _may_be_divided(name))


def _may_be_divided(name: str) -> bool:
    return not name.startswith(COUNT_PREFIX) and name.rpartition(".")[2] == CPU
