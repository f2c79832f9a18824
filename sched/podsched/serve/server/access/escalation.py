"""Prevents privilege escalation: a caller cannot grant rights that it does not have.

As in Kubernetes (pkg/registry/rbac): creating or changing a role requires all rights that it
grants, or the verb ``escalate`` on it; binding one requires all its rights or the verb ``bind``. A
role that is aggregated from others, before or after the change, counts as granting everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from podsched.api.kinds import KINDS, Kind
from podsched.api.objects import AnyObject, ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podsched.api.validation.rbac import RBAC_GROUP
from podsched.serve.server import errors
from podsched.serve.server.access.rights import Rights
from podsched.serve.server.access.rules import MAX_RIGHTS, Rule, not_covered

_MAX_SHOWN = 10


def check_grant(rights: Rights, kind: Kind, new: AnyObject, old: AnyObject | None = None) -> None:
    """Raise ApiError if an RBAC object to be stored grants rights that its author does not have."""
    if isinstance(new, Role | ClusterRole):
        _check_role(rights, kind, new, aggregated=_is_aggregated(new) or _is_aggregated(old))
    elif isinstance(new, RoleBinding | ClusterRoleBinding):
        _check_binding(rights, kind, new)


def _is_aggregated(role: AnyObject | None) -> bool:
    return isinstance(role, ClusterRole) and role.HasField("aggregation_rule")


def _check_role(rights: Rights, kind: Kind, new: Role | ClusterRole, *, aggregated: bool) -> None:
    name, namespace = new.metadata.name, new.metadata.namespace
    if rights.permit("escalate", RBAC_GROUP, kind.plural, namespace, name):
        return
    rules = [Rule.of(rule) for rule in new.rules]
    if aggregated:
        # Later changes of other roles could add any right to it.
        every = frozenset({"*"})
        rules.append(Rule(every, every, every, frozenset(), frozenset()))
    _check_rules(rights, kind, name, namespace, rules)


def _check_binding(rights: Rights, kind: Kind, new: RoleBinding | ClusterRoleBinding) -> None:
    ref, namespace = new.role_ref, new.metadata.namespace
    role = KINDS.get(ref.kind)
    if role is None or rights.permit("bind", RBAC_GROUP, role.plural, namespace, ref.name):
        return
    rules = rights.policy.rules_of(ref, namespace)
    if not rules and not rights.policy.has(ref, namespace):
        raise errors.not_found(role, ref.name)
    _check_rules(rights, kind, new.metadata.name, namespace, rules)


def _check_rules(
    rights: Rights, kind: Kind, name: str, namespace: str, rules: Iterable[Rule]
) -> None:
    missing = not_covered(rights.grants.rules_in(namespace), rules)
    if missing is None:
        why = f"it consists of more than {MAX_RIGHTS} single rights"
        raise errors.forbidden(kind, name, why)
    if missing:
        shown = [str(right) for right in missing[:_MAX_SHOWN]]
        if len(missing) > _MAX_SHOWN:
            shown.append(f"and {len(missing) - _MAX_SHOWN} more")
        groups = cast(list[str], sorted(rights.identity.groups))
        who = f'user "{rights.identity.user}" (groups={groups})'.replace("'", '"')
        why = f"{who} is attempting to grant RBAC permissions not currently held: "
        raise errors.forbidden(kind, name, why + ", ".join(shown))
