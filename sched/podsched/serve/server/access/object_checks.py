"""Checks rights that depend on an object's content, in addition to the verb on its kind.

    a pod with a node         also needs create pods/binding: otherwise creating would be binding;
                              a kubelet may create its own mirror pods (``nodes``)
    a template with a node    likewise, because controllers make its pods with their own rights
    a pod of a system class   also needs the verb use on that PriorityClass, outside kube-system
    an RBAC object            must not grant rights that its author lacks (``check_grant``), also by
                              its labels, by which other roles aggregate it
    an agent's write          must concern its own nodes (``nodes``)
    the status of a claim     also needs the verb on resourceclaims/binding in all namespaces to
                              change allocation or consumers, and arbitrary-node:VERB on
                              resourceclaims/driver of each driver whose devices it changes
    a certificate request     needs the verb approve on its signer to be approved or denied, and
                              sign to be signed

Each check uses the version of the object that is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from podsched.api.field_errors import FieldError, forbidden
from podsched.api.kinds import KINDS, Kind
from podsched.api.kubelet_defaults import template_of
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import (
    AnyObject,
    CertificateSigningRequest,
    ClusterRole,
    ClusterRoleBinding,
    Pod,
    ResourceClaim,
    ResourceClaimStatus,
    Role,
    RoleBinding,
    copy_of,
)
from podsched.api.priorities import HIGHEST_USER_DEFINABLE_PRIORITY
from podsched.api.validation.devices import shared_device_id
from podsched.api.validation.rbac import RBAC_GROUP
from podsched.serve.server import errors
from podsched.serve.server.access.rights import Rights, rights
from podsched.serve.server.access.rules import MAX_RIGHTS, Rule, not_covered
from podsched.serve.server.certificate_requests import check_decision
from podsched.serve.server.entries import Entry

_CLASS, _POD = KINDS["PriorityClass"], KINDS["Pod"]
_SYSTEM = "kube-system"
_RBAC = (Role, ClusterRole, RoleBinding, ClusterRoleBinding)
#: Max missing rights that an error names.
_MAX_SHOWN = 10


def check_creation(kind: Kind, new: AnyObject) -> None:
    """Raise ApiError unless the caller may create an object."""
    own = rights()
    if own.everything:
        return
    metadata = new.metadata
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    own.check("create", kind, namespace)
    if own.node is not None:
        own.node.check_creation(kind, new, own.uid_of_node)
    elif _named_node(new):
        # Its creation binds it. Kubernetes asks for no right beyond that to create pods.
        own.check("create", _POD, namespace, metadata.name, "binding")


def _named_node(item: AnyObject) -> str:
    """Return the node that a pod, or the template of a workload's pods, has; "" for none."""
    described = item if isinstance(item, Pod) else template_of(item)
    return str(described.spec.node_name) if described is not None else ""


def check_new(kind: Kind, new: AnyObject) -> None:
    """Raise ApiError if the caller may not store a new object, already completed by defaults."""
    own = rights()
    if own.everything:
        return
    if isinstance(new, Pod):
        _check_priority(own, kind, new)
    elif isinstance(new, _RBAC):
        check_grant(own.latest(), kind, new)


def _check_priority(own: Rights, kind: Kind, pod: Pod) -> None:
    """Raise ApiError if the caller may not create pods of a system priority class."""
    name = pod.spec.priority_class_name
    if pod.spec.priority <= HIGHEST_USER_DEFINABLE_PRIORITY or pod.metadata.namespace == _SYSTEM:
        return
    if not own.permit("use", _CLASS.group, _CLASS.plural, "", name):
        why = (
            f'User "{own.identity.user}" cannot use the priority class "{name}" outside the '
            f'namespace "{_SYSTEM}": it needs the verb "use" on {_CLASS.plural}'
        )
        raise errors.forbidden(kind, pod.metadata.name, why)


def check_change(kind: Kind, old: AnyObject, new: AnyObject) -> None:
    """Raise ApiError if the content of a change, permitted by the caller's roles, is forbidden."""
    own = rights()
    if own.everything:
        return
    if own.node is not None:
        own.node.check_change(kind, old, new)
    elif not isinstance(new, Pod) and _named_node(new) not in ("", _named_node(old)):
        own.check("create", _POD, new.metadata.namespace, new.metadata.name, "binding")
    if isinstance(new, _RBAC) and _granting(new) != _granting(old):
        check_grant(own.latest(), kind, new, old)


def check_status(kind: Kind, old: AnyObject, new: AnyObject, verb: str) -> None:
    """Raise ApiError if the caller may not change the status of an object like this."""
    own = rights()
    if own.everything:
        return
    if isinstance(new, CertificateSigningRequest) and isinstance(old, CertificateSigningRequest):
        check_decision(own, new, old)
    if not isinstance(new, ResourceClaim) or not isinstance(old, ResourceClaim):
        return
    found: list[FieldError] = []
    now, before = new.status, old.status
    # Apart from ``devices``, which drivers write.
    same = copy_of(now, without=("devices",)) == copy_of(before, without=("devices",))
    if not same and (refused := errors.attempted(own.check, verb, kind, "", "", "binding")):
        text = (
            "changing status.allocation or status.reservedFor requires "
            f'resource="resourceclaims/binding", verb="{verb}" permission: {refused.message}'
        )
        found.append(forbidden("status", text))
    needed, namespace = f"arbitrary-node:{verb}", new.metadata.namespace
    for driver in _changed_drivers(now, before):
        if refused := errors.attempted(own.check, needed, kind, namespace, driver, "driver"):
            text = (
                'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{needed}]" permission: {refused.message}'
            )
            found.append(forbidden("status", text))
    if found:
        raise errors.invalid_fields(kind, new.metadata.name, found)


def _changed_drivers(new: ResourceClaimStatus, old: ResourceClaimStatus) -> list[str]:
    """Return the names of the drivers whose entries in ``devices`` differ."""
    now, before = (
        {shared_device_id(device): device for device in status.devices} for status in (new, old)
    )
    return sorted({key[0] for key in now.keys() | before.keys() if now.get(key) != before.get(key)})


def check_own(entry: Entry) -> None:
    """Raise ApiError if the caller is an agent and the object belongs to another node.

    Called before an object is removed or its status is written.
    """
    own = rights()
    if own.node is not None:
        own.node.check_change(entry.kind, entry.message, None)


def _granting(message: AnyObject) -> AnyObject:
    """Return an RBAC object without the fields that the garbage collector changes.

    They grant nothing. As Kubernetes' ``IsOnlyMutatingGCFields``.
    """
    bare = copy_of(message)
    for field in ("owner_references", "finalizers", "managed_fields", "resource_version"):
        bare.metadata.ClearField(field)
    return bare


def check_grant(rights: Rights, kind: Kind, new: AnyObject, old: AnyObject | None = None) -> None:
    """Raise ApiError if an RBAC object to be stored grants rights that its author does not have.

    As in Kubernetes (pkg/registry/rbac): creating or changing a role requires all rights that it
    grants, or the verb ``escalate`` on it; binding one requires all its rights or the verb
    ``bind``. A role that is aggregated from others, before or after the change, counts as granting
    everything.
    """
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
        rules.append(Rule(every, every, every))
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
