"""Authenticates bootstrap tokens, with which a kubelet requests its first certificate.

A token "ID.SECRET" is in the Secret ``kube-system/bootstrap-token-ID`` of type
bootstrap.kubernetes.io/token. Its user is system:bootstrap:ID. Source:
plugin/pkg/auth/authenticator/token/bootstrap of Kubernetes v1.36.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import math
import re
import time
from collections.abc import Callable
from typing import Final

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Secret
from podsched.serve.server.access.identity import AUTHENTICATED, Authentication, Identity, expiry_of
from podsched.serve.server.watchcache import WatchCache

SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"
SECRET_PREFIX: Final = "bootstrap-token-"
SECRET_NAMESPACE: Final = "kube-system"
BOOTSTRAPPERS: Final = "system:bootstrappers"
USER_PREFIX: Final = "system:bootstrap:"
#: Annotation of the Secret: the only node that the token gets a certificate for.
BOUND_NODE: Final = "podsched.io/node"
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """The bootstrap tokens in the watch cache; now: Unix time in seconds."""

    def __init__(self, cache: WatchCache, now: Callable[[], float] = time.time) -> None:
        self._cache = cache
        self._now = now

    def identity_of(self, token: str) -> Identity | None:
        """Return the identity of a token; None if it is not a valid bootstrap token."""
        found = _TOKEN.fullmatch(token) if len(token) < 32 else None
        if found is None:
            return None
        name, given = found.groups()
        key = f"{SECRET_NAMESPACE}/{SECRET_PREFIX}{name}"
        secret = self._cache.message(KINDS["Secret"], key, Secret)
        if secret is None or secret.metadata.HasField("deletion_timestamp"):
            return None
        stored = {key: _decoded(value) for key, value in secret.data.items()}
        expires = _expiry(stored.get("expiration", ""))
        usable = (
            secret.type == SECRET_TYPE
            and hmac.compare_digest(stored.get("token-secret", "").encode(), given.encode())
            and stored.get("token-id") == name
            and stored.get("usage-bootstrap-authentication") == "true"
            and expires > self._now()
        )
        if not usable:
            return None
        extra = {part for part in stored.get("auth-extra-groups", "").split(",") if part}
        if not all(_GROUP.fullmatch(group) for group in extra):
            return None
        groups = frozenset({*extra, BOOTSTRAPPERS, AUTHENTICATED})
        return Identity(f"{USER_PREFIX}{name}", groups, Authentication.BOOTSTRAP_TOKEN, expires)


def has_expired(item: AnyObject, now: float) -> bool:
    """Return whether a bootstrap token's Secret is of no more use; now: Unix time in seconds."""
    if not isinstance(item, Secret) or item.type != SECRET_TYPE:
        return False
    return math.isfinite(ends := _expiry(_decoded(item.data.get("expiration", "")))) and ends < now


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode()
    except (binascii.Error, ValueError):
        return ""


def _expiry(text: str) -> float:
    """Return a time as Unix seconds: never without one, long ago if it is malformed."""
    try:
        return expiry_of(text)
    except ValueError:
        return -math.inf
