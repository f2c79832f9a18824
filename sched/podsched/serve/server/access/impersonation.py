"""Impersonation: a request is executed with the rights of another user, as ``kubectl --as`` asks.

The headers ``Impersonate-User``, ``-Group``, ``-Uid`` and ``-Extra-KEY`` say who that is. The
caller needs the verb ``impersonate`` for each name in them, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from podsched.serve.server import errors
from podsched.serve.server.access.identity import (
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNTS,
    Identity,
)
from podsched.serve.server.access.rights import rights

_PREFIX: Final = "impersonate-"
_EXTRA: Final = "extra-"
_ANONYMOUS: Final = "system:anonymous"
_UNAUTHENTICATED: Final = "system:unauthenticated"
_GROUP: Final = "authentication.k8s.io"


def impersonated(lines: Sequence[tuple[str, str]], own: Identity) -> Identity | None:
    """Return the user that the headers of a request name; None if they name none.

    own: the caller, whose credential limits how long the other identity is valid. Raises ApiError.
    """
    lowered = [(name.lower(), value) for name, value in lines]
    named = [(n.removeprefix(_PREFIX), v) for n, v in lowered if n.startswith(_PREFIX)]
    if not named:
        return None
    user = next((value for name, value in named if name == "user"), "")
    uid = next((value for name, value in named if name == "uid"), "")
    groups = frozenset(value for name, value in named if name == "group")
    extra = tuple(
        (unquote(name.removeprefix(_EXTRA)), value)
        for name, value in named
        if name.startswith(_EXTRA)
    )
    if not user:
        raise errors.bad_request("impersonation needs the header Impersonate-User")
    for needed in _needed(user, groups, uid, extra):
        check_impersonation(*needed)
    namespace, account = _account_of(user)
    # As in Kubernetes: an account has its own groups unless others are named, and everyone is
    # authenticated who does not ask to be anonymous.
    if account and not groups:
        groups = frozenset({SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"})
    if user == _ANONYMOUS:
        groups |= {_UNAUTHENTICATED}
    if _UNAUTHENTICATED not in groups:
        groups |= {AUTHENTICATED}
    return replace(own, user=user, groups=groups, uid=uid, extra=extra)


def _account_of(user: str) -> tuple[str, str]:
    """Return namespace and name of a ServiceAccount; both are "" if the user is none."""
    prefix = SERVICE_ACCOUNT_PREFIX
    parts = user.removeprefix(prefix).split(":") if user.startswith(prefix) else []
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else ("", "")


def _needed(
    user: str, groups: frozenset[str], uid: str, extra: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield API group, resource, namespace and name of what must be permitted."""
    namespace, account = _account_of(user)
    yield ("", "serviceaccounts", namespace, account) if account else ("", "users", "", user)
    yield from (("", "groups", "", group) for group in sorted(groups))
    if uid:
        yield _GROUP, "uids", "", uid
    yield from ((_GROUP, f"userextras/{key}", "", value) for key, value in extra)


def check_impersonation(group: str, resource: str, namespace: str, name: str) -> None:
    """Check that the caller may take on a name. Raises ApiError if it may not."""
    shown = f'{resource} "{name}"'
    rights().check_resource(shown, "impersonate", group, resource, namespace, name)
