"""Callers with roles, on an API server without transport."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from podsched.api.objects import AnyObject, ClusterRoleBinding, PolicyRule, RoleBinding
from podsched.api.validation.rbac import RBAC_GROUP
from podsched.serve.server.access.identity import AUTHENTICATED, Authentication, Identity
from podsched.serve.server.access.rights import Rights, rights, set_rights
from podsched.serve.server.core import ServerCore


def identity(user: str, *groups: str) -> Identity:
    """Someone with a certificate."""
    return Identity(user, frozenset({*groups, AUTHENTICATED}), Authentication.CERTIFICATE)


def rule(verbs: str, resources: str, *names: str, groups: tuple[str, ...] = ("",)) -> PolicyRule:
    """A rule from words in a row."""
    return PolicyRule(
        verbs=verbs.split(), api_groups=groups, resources=resources.split(), resource_names=names
    )


def binding_of(role: str, user: str, namespace: str = "", name: str = "") -> AnyObject:
    """A binding of a cluster role to a user, everywhere or in one namespace."""
    found: RoleBinding | ClusterRoleBinding
    found = RoleBinding() if namespace else ClusterRoleBinding()
    found.metadata.name, found.metadata.namespace = name or f"{user}-{role}", namespace
    found.role_ref.kind, found.role_ref.name = "ClusterRole", role
    found.role_ref.api_group = RBAC_GROUP
    found.subjects.add(kind="User", name=user, api_group=RBAC_GROUP)
    return found


@contextmanager
def calling(core: ServerCore, caller: Identity) -> Iterator[Rights]:
    """Within it, this caller makes the calls."""
    before = rights()
    found = core.authorizer.rights_of(caller)
    set_rights(found)
    try:
        yield found
    finally:
        set_rights(before)
