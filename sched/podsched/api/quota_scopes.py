"""Which pods a ResourceQuota is about: its scopes, and the expressions of its scope selector.

Source: podMatchesScopeFunc of pkg/quota/v1/evaluator/core/pods.go and generic.Matches of
pkg/quota/v1/generic of Kubernetes v1.36. Objects other than pods are not in any scope. The scope
VolumeAttributesClass is not supported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from podsched.api.codec import object_json
from podsched.api.objects import AnyObject, Pod, ResourceQuotaSpec
from podsched.api.resources import qos_class
from podsched.api.spec_parts import affinity_terms

TERMINATING: Final = "Terminating"
NOT_TERMINATING: Final = "NotTerminating"
BEST_EFFORT: Final = "BestEffort"
NOT_BEST_EFFORT: Final = "NotBestEffort"
PRIORITY_CLASS: Final = "PriorityClass"
CROSS_NAMESPACE: Final = "CrossNamespacePodAffinity"
SCOPES: Final = frozenset(
    {TERMINATING, NOT_TERMINATING, BEST_EFFORT, NOT_BEST_EFFORT, PRIORITY_CLASS, CROSS_NAMESPACE}
)


class PodScopes(NamedTuple):
    """What of a pod decides on the scopes that it is in."""

    terminating: bool
    best_effort: bool
    cross_namespace: bool
    priority_class: str


class ScopeExpression(NamedTuple):
    """A ScopedResourceSelectorRequirement; a plain scope is one with ``Exists``."""

    scope: str
    operator: str
    values: tuple[str, ...] = ()


def scopes_of(message: AnyObject) -> PodScopes | None:
    """Return what decides on a pod's scopes; None for other objects."""
    if not isinstance(message, Pod):
        return None
    spec = message.spec
    return PodScopes(
        spec.HasField("active_deadline_seconds") and spec.active_deadline_seconds >= 0,
        qos_class(spec) == "BestEffort",
        any(t.namespaces or t.HasField("namespace_selector") for t in affinity_terms(spec)),
        spec.priority_class_name,
    )


def expressions_of(spec: ResourceQuotaSpec) -> list[ScopeExpression]:
    """Return all that a pod must match to count for a quota."""
    return [ScopeExpression(scope, "Exists") for scope in spec.scopes] + [
        ScopeExpression(str(found["scopeName"]), str(found["operator"]), _values(found))
        for found in selector_expressions(spec)
        if isinstance(found, Mapping) and {"scopeName", "operator"} <= found.keys()
    ]


def selector_expressions(spec: ResourceQuotaSpec) -> list[Any]:
    """Return the selector's ``matchExpressions`` as they are stored, whatever they are."""
    found = object_json(spec.scope_selector).get("matchExpressions", [])
    return found if isinstance(found, list) else [found]


def _values(expression: Mapping[str, Any]) -> tuple[str, ...]:
    values = expression.get("values") or ()
    return tuple(map(str, values)) if isinstance(values, list) else ()


def is_in_scope(expressions: Iterable[ScopeExpression], scopes: PodScopes | None) -> bool:
    """Return whether an object is one that a quota with these expressions is about."""
    return all(scopes is not None and _matches(each, scopes) for each in expressions)


def _matches(expression: ScopeExpression, scopes: PodScopes) -> bool:
    if expression.scope == PRIORITY_CLASS:
        return _matches_class(expression, scopes.priority_class)
    return {
        TERMINATING: scopes.terminating,
        NOT_TERMINATING: not scopes.terminating,
        BEST_EFFORT: scopes.best_effort,
        NOT_BEST_EFFORT: not scopes.best_effort,
        CROSS_NAMESPACE: scopes.cross_namespace,
    }.get(expression.scope, False)


def _matches_class(expression: ScopeExpression, name: str) -> bool:
    """Return whether a pod of this class matches; one without a class is in no list."""
    is_listed = bool(name) and name in expression.values
    return {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": is_listed,
        "NotIn": not is_listed,
    }.get(expression.operator, False)
