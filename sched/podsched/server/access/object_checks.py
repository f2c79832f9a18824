"""What depends on the object itself, beyond the verb on its kind: where it is about to be stored.

    a pod with a node         also needs create pods/binding: otherwise creating would be binding
    an RBAC object            grants nothing that its author does not have (``escalation``), also by
                              its labels, which decide what other roles are made of
    what an agent writes      is its own (``nodes``)

Each is decided on the version of the object that is replaced.
"""

from __future__ import annotations

from podsched.api.kinds import Kind
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import (
    AnyObject,
    ClusterRole,
    ClusterRoleBinding,
    Pod,
    Role,
    RoleBinding,
)
from podsched.server.access.escalation import check_grant
from podsched.server.access.rights import rights
from podsched.server.entries import Entry

_RBAC = (Role, ClusterRole, RoleBinding, ClusterRoleBinding)


def check_creation(kind: Kind, new: AnyObject) -> None:
    """Raise ApiError unless the caller may create an object."""
    own = rights()
    if own.everything:
        return
    metadata = new.metadata
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    own.check("create", kind, namespace)
    if isinstance(new, Pod) and new.spec.node_name:
        own.check("create", kind, namespace, metadata.name, "binding")
    if own.node is not None:
        own.node.check_creation(kind, new)


def check_new(kind: Kind, new: AnyObject) -> None:
    """Raise ApiError for a new object, complete with defaults, that the caller may not store."""
    own = rights()
    if not own.everything and isinstance(new, _RBAC):
        check_grant(own, kind, new)


def check_change(kind: Kind, old: AnyObject, new: AnyObject) -> None:
    """Raise ApiError unless the caller may replace an object that he may change by his roles."""
    own = rights()
    if own.everything:
        return
    if own.node is not None:
        own.node.check_change(kind, old, new)
    if isinstance(new, _RBAC) and _granting(new) != _granting(old):
        check_grant(own, kind, new, old)


def check_own(entry: Entry) -> None:
    """Raise ApiError for an agent that is about to remove, or write the status of, another's."""
    own = rights()
    if own.node is not None:
        own.node.check_change(entry.kind, entry.message, None)


def _granting(message: AnyObject) -> AnyObject:
    """Return an RBAC object without what the garbage collector changes, which grants nothing.

    As Kubernetes' ``IsOnlyMutatingGCFields``.
    """
    bare = type(message)()
    bare.CopyFrom(message)  # type: ignore[arg-type]
    for field in ("owner_references", "finalizers", "managed_fields", "resource_version"):
        bare.metadata.ClearField(field)
    return bare
