"""Compiles roles and bindings to the rules of each user and group.

Pure. A ``Policy`` is built from all RBAC objects and immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podsched.api.objects import (
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from podsched.api.selectors import compile_selector
from podsched.api.validation.rbac import SERVICE_ACCOUNT, USER
from podsched.serve.server.access.identity import SERVICE_ACCOUNT_PREFIX
from podsched.serve.server.access.rules import Rule


class Grants(NamedTuple):
    """The rules of a subject: cluster-wide, and by namespace."""

    everywhere: tuple[Rule, ...]
    in_namespace: Mapping[str, tuple[Rule, ...]]

    def rules_in(self, namespace: str) -> Sequence[Rule]:
        """Return the rules in a namespace; "": at the cluster scope."""
        return (*self.everywhere, *self.in_namespace.get(namespace, ()))


class Policy:
    """Roles and bindings as of one revision."""

    def __init__(
        self,
        roles: Iterable[Role] = (),
        cluster_roles: Iterable[ClusterRole] = (),
        role_bindings: Iterable[RoleBinding] = (),
        cluster_role_bindings: Iterable[ClusterRoleBinding] = (),
    ) -> None:
        """Index the objects; the rules of a role are compiled when they are first needed."""
        self._cluster_roles = {role.metadata.name: role for role in cluster_roles}
        self._roles = {(role.metadata.namespace, role.metadata.name): role for role in roles}
        self._compiled: dict[tuple[str, str], tuple[Rule, ...]] = {}
        # By (is a user, name of the user or group): pairs of namespace and role.
        self._bound: dict[tuple[bool, str], list[tuple[str, RoleRef]]] = {}
        for cluster_binding in cluster_role_bindings:
            for subject in cluster_binding.subjects:
                self._bind(subject, "", cluster_binding.role_ref)
        for binding in role_bindings:
            for subject in binding.subjects:
                self._bind(subject, binding.metadata.namespace, binding.role_ref)

    def _bind(self, subject: Subject, namespace: str, role: RoleRef) -> None:
        name = subject.name
        if subject.kind == SERVICE_ACCOUNT:
            account = subject.namespace or namespace
            name = f"{SERVICE_ACCOUNT_PREFIX}{account}:{name}"
        is_user = subject.kind in (USER, SERVICE_ACCOUNT)
        self._bound.setdefault((is_user, name), []).append((namespace, role))

    def grants(self, user: str, groups: Iterable[str]) -> Grants:
        """Return the rules of a user with groups."""
        found: dict[str, dict[Rule, None]] = {}
        for subject in ((True, user), *((False, group) for group in groups)):
            for namespace, ref in self._bound.get(subject, ()):
                rules = self.rules_of(ref, namespace)
                found.setdefault(namespace, {}).update(dict.fromkeys(rules))
        everywhere = tuple(found.pop("", ()))
        return Grants(everywhere, {space: tuple(rules) for space, rules in found.items()})

    def rules_of(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...]:
        """Return the rules of the role that a namespace's binding names, () if it is missing."""
        key = ("" if ref.kind == "ClusterRole" else namespace, ref.name)
        rules = self._compiled.get(key)
        if rules is None:
            rules = self._compiled[key] = tuple(self._compile(*key))
        return rules

    def has(self, ref: RoleRef, namespace: str) -> bool:
        """Return whether the role that a namespace's binding names exists."""
        if ref.kind == "ClusterRole":
            return ref.name in self._cluster_roles
        return (namespace, ref.name) in self._roles

    def _compile(self, namespace: str, name: str) -> Iterable[Rule]:
        """Compile the rules of a Role, or of a ClusterRole if ``namespace`` is ""."""
        roles: Iterable[Role | ClusterRole] = self._aggregated(name)
        if namespace:
            role = self._roles.get((namespace, name))
            roles = [role] if role is not None else []
        return [Rule.of(rule) for role in roles for rule in role.rules]

    def _aggregated(self, name: str) -> Iterator[ClusterRole]:
        """Yield a ClusterRole, those that its aggregation rule selects, and those of theirs.

        Kubernetes' controller copies their rules into the role; looking for them here needs no
        controller.
        """
        seen = {name} & self._cluster_roles.keys()
        waiting = list(seen)
        while waiting:
            role = self._cluster_roles[waiting.pop()]
            yield role
            selectors = [
                compile_selector(selector)
                for selector in role.aggregation_rule.cluster_role_selectors
            ]
            for other in self._cluster_roles.values() if selectors else ():
                is_selected = any(found.matches(other.metadata.labels) for found in selectors)
                if is_selected and other.metadata.name not in seen:
                    seen.add(other.metadata.name)
                    waiting.append(other.metadata.name)
