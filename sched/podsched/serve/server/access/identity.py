"""The ``Identity`` of a caller, available throughout a call to the API.

``pipeline.Pipeline`` gets it from the authenticator before decoding a request, stores it in
``Call.identity``, and sets it for everything that runs within the call, including streams:
``caller()`` returns it. Outside of a call, as when the server creates the built-in objects, it is
the server itself.

Names are Kubernetes': users and groups that begin with "system:" are built in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from podsched.lib.groups import lists_by_key

#: Group that may do everything, regardless of roles.
MASTERS: Final = "system:masters"
#: Group of all authenticated users.
AUTHENTICATED: Final = "system:authenticated"
#: Groups of kubelets and agents, and of all ServiceAccounts; prefix of their users.
NODES: Final = "system:nodes"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class Authentication(StrEnum):
    """How an identity was established."""

    NONE = "None"
    """No authentication: the listener has neither client certificates nor tokens."""
    CERTIFICATE = "X509"
    TOKEN = "Token"
    JWT = "JWT"
    SERVICE_ACCOUNT = "ServiceAccount"
    BOOTSTRAP_TOKEN = "BootstrapToken"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with its groups.

    expires: Unix seconds at which the credential expires. uid: of a ServiceAccount. extra: what
    else a credential says, such as the pod of a token, as pairs of key and value.
    """

    user: str
    groups: frozenset[str]
    how: Authentication
    expires: float = math.inf
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()
    recheck: Callable[[], object] | None = field(default=None, compare=False, repr=False)
    """Raises TokenRejected once the credential is no longer accepted; None: it lasts until
    ``expires``."""

    def extra_by_key(self) -> dict[str, list[str]]:
        """Return the values of ``extra`` by their keys, as Kubernetes shows them."""
        return lists_by_key(self.extra)


#: Every caller without authentication; the user of kube-apiserver's insecure port.
UNSECURED: Final = Identity(
    "system:unsecured", frozenset({MASTERS, AUTHENTICATED}), Authentication.NONE
)
#: The server's own identity.
SERVER: Final = Identity(
    "system:apiserver", frozenset({MASTERS, AUTHENTICATED}), Authentication.NONE
)


def expiry_of(text: str) -> float:
    """Return a time, of UTC by default, as Unix seconds; "": never. Raises ValueError."""
    if not text:
        return math.inf
    stamp = datetime.fromisoformat(text)
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


class TokenRejected(Exception):
    """An invalid token; the message has the reason but not the token."""


_caller: ContextVar[Identity] = ContextVar("caller", default=SERVER)


def caller() -> Identity:
    """Return the identity of the current call."""
    return _caller.get()


def set_caller(identity: Identity) -> None:
    """Set the identity of the call that this task handles."""
    _caller.set(identity)
