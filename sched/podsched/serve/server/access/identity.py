"""Who calls: the ``Identity`` that every call to the API has from its first line to its last.

``pipeline.Pipeline`` asks the authenticator for it before it decodes a request, keeps it in
``Call.identity``, and sets it for everything that runs within the call, streams included:
``caller()`` returns it wherever a decision needs it. Outside of a call, such as when the server
creates what every cluster has, it is the server itself.

Names are Kubernetes': users and groups that begin with "system:" are its own.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: May do everything, whatever the roles say.
MASTERS: Final = "system:masters"
#: The group of all whom an authenticator has recognized.
AUTHENTICATED: Final = "system:authenticated"


class Authentication(StrEnum):
    """How an identity was established."""

    NONE = "None"
    """Nothing is asked for: the listener has neither client certificates nor tokens."""
    CERTIFICATE = "X509"
    TOKEN = "Token"
    JWT = "JWT"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with groups.

    expires: Unix seconds from which on the credential is no longer valid.
    """

    user: str
    groups: frozenset[str]
    how: Authentication
    expires: float = math.inf


#: Everyone, where nothing is asked for; the user of kube-apiserver's insecure port.
UNSECURED: Final = Identity(
    "system:unsecured", frozenset({MASTERS, AUTHENTICATED}), Authentication.NONE
)
#: The server, for what it does by itself.
SERVER: Final = Identity(
    "system:apiserver", frozenset({MASTERS, AUTHENTICATED}), Authentication.NONE
)


class TokenRejected(Exception):
    """A token that is not good; the text says why, without showing the token."""


_caller: ContextVar[Identity] = ContextVar("caller", default=SERVER)


def caller() -> Identity:
    """Return who makes the call under way."""
    return _caller.get()


def set_caller(identity: Identity) -> None:
    """Set who makes the call that this task handles."""
    _caller.set(identity)
