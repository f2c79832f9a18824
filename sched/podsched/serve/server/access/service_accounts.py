"""Issues and verifies the tokens of ServiceAccounts.

A token is a JSON Web Token with Kubernetes' claims (pkg/serviceaccount/claims.go, v1.36). It is
bound to its ServiceAccount and, mostly, to a pod, Secret or node: it is refused once one of these
is gone, replaced by one with another uid, or was deleted more than a minute ago.

The signature of a token is verified once; what it is bound to is looked up in the watch cache at
each call. Unlike kube-apiserver, no token is extended to a year: it ends when its request says.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import jwt as pyjwt

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ServiceAccount, seconds_of
from podsched.serve.server.access.identity import (
    AUTHENTICATED,
    Authentication,
    Identity,
    TokenRejected,
)
from podsched.serve.server.access.policy import SERVICE_ACCOUNT_PREFIX
from podsched.serve.server.access.settings import ServiceAccountSettings
from podsched.serve.server.access.signing_keys import SigningKeys
from podsched.serve.server.watchcache import WatchCache

ACCOUNTS: Final = "system:serviceaccounts"
#: The kinds that a token can be bound to, by their claims.
BINDABLE: Final[Mapping[str, str]] = {"pod": "Pod", "secret": "Secret", "node": "Node"}
#: Seconds for which a token is accepted after what it is bound to has been marked as deleted.
_DELETED_LEEWAY: Final = 60.0
#: Seconds that the clocks of API servers may differ.
_CLOCK_LEEWAY: Final = 10.0
_LONGEST_TOKEN: Final = 16 << 10
#: Max tokens whose verified claims are kept.
_KEPT: Final = 4096
_INVALIDATED: Final = "the service account token has been invalidated"
_EXTRA: Final = "authentication.kubernetes.io/"


class Bound(NamedTuple):
    """An object that a token is bound to: its claim ("pod", ...), name and uid."""

    claim: str
    name: str
    uid: str


class ServiceAccountTokens:
    """Tokens of ServiceAccounts. Raises SigningKeyError, OSError for unusable key files.

    now: Unix time in seconds.
    """

    def __init__(
        self,
        settings: ServiceAccountSettings,
        cache: WatchCache,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.keys = SigningKeys(settings)
        self.issuer = settings.account_issuer
        self.audiences = settings.audiences
        self._cache = cache
        self.now = now
        self._verified: dict[bytes, Mapping[str, Any]] = {}

    def issue(
        self, account: ServiceAccount, audiences: Sequence[str], seconds: int, *bound: Bound
    ) -> str:
        """Return a new token of an account."""
        metadata = account.metadata
        now = int(self.now())
        private: dict[str, Any] = {
            "namespace": metadata.namespace,
            "serviceaccount": {"name": metadata.name, "uid": metadata.uid},
        }
        for item in bound:
            uid = {"uid": item.uid} if item.uid else {}
            private[item.claim] = {"name": item.name, **uid}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{metadata.namespace}:{metadata.name}",
        }
        return self.keys.signed(claims)

    def is_issuer_of(self, token: str) -> bool:
        """Return whether a token, not yet verified, names this issuer."""
        if len(token) > _LONGEST_TOKEN or token.count(".") != 2:
            return False
        if _digest(token) in self._verified:
            return True
        try:
            claims = pyjwt.decode(token, options={"verify_signature": False})
        except (pyjwt.PyJWTError, RecursionError, TypeError, ValueError):
            return False
        return bool(claims.get("iss") == self.issuer and "kubernetes.io" in claims)

    def identity_of(self, token: str, audiences: Sequence[str] = ()) -> Identity:
        """Return the identity of a token for one of the audiences, by default those of this API.

        Raises TokenRejected.
        """
        claims = self._claims_of(token)
        if not set(audiences or self.audiences).intersection(audiences_in(claims)):
            raise TokenRejected("its audiences are not those of this API")
        now = self.now()
        if claims["exp"] <= now:
            raise TokenRejected("it has expired")
        if claims.get("nbf", 0) > now + _CLOCK_LEEWAY:
            raise TokenRejected("it is not valid yet")
        found = self._bound_identity(claims, now)
        return replace(found, recheck=partial(self.identity_of, token, audiences))

    def audiences_of(self, token: str) -> Sequence[str]:
        """Return the audiences of a token. Raises TokenRejected unless its signature is valid."""
        return audiences_in(self._claims_of(token))

    def _claims_of(self, token: str) -> Mapping[str, Any]:
        """Return a token's claims; its signature is verified only once. Raises TokenRejected."""
        if len(token) > _LONGEST_TOKEN:
            raise TokenRejected(f"it is longer than {_LONGEST_TOKEN} characters")
        digest = _digest(token)
        claims = self._verified.get(digest)
        if claims is None:
            try:
                claims = self.keys.verified(token)
            except (pyjwt.PyJWTError, RecursionError, TypeError, ValueError) as error:
                raise TokenRejected(str(error)) from None
            _check_claims(claims, self.issuer)
            if len(self._verified) >= _KEPT:
                self._verified.clear()
            self._verified[digest] = claims
        return claims

    def _bound_identity(self, claims: Mapping[str, Any], now: float) -> Identity:
        """Return the identity, if all that the token is bound to exists. Raises TokenRejected."""
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        found = self._find("ServiceAccount", namespace, account["name"])
        if found is None:
            raise TokenRejected("its service account does not exist")
        if found.metadata.uid != account["uid"]:
            raise TokenRejected("its service account was replaced by another of the same name")
        _check_not_deleted(found, now)
        extra = [("credential-id", f"JTI={claims['jti']}")] if "jti" in claims else []
        for claim, kind in BINDABLE.items():
            if claim not in private:
                continue
            name, uid = private[claim]["name"], private[claim].get("uid", "")
            extra += [(f"{claim}-name", name), *([(f"{claim}-uid", uid)] if uid else [])]
            if claim == "node" and "pod" in private:
                # Tells where the pod runs; the pod is what the token is bound to.
                continue
            item = self._find(kind, namespace, name)
            if item is None or item.metadata.uid != uid:
                raise TokenRejected(_INVALIDATED)
            _check_not_deleted(item, now)
        return Identity(
            f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{account['name']}",
            frozenset({ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED}),
            Authentication.SERVICE_ACCOUNT,
            float(claims["exp"]),
            account["uid"],
            tuple((f"{_EXTRA}{name}", value) for name, value in extra),
        )

    def _find(self, kind: str, namespace: str, name: str) -> AnyObject | None:
        found = KINDS[kind]
        key = f"{namespace}/{name}" if found.namespaced else name
        entry = self._cache.get(found, key)
        return entry.message if entry is not None else None


def audiences_in(claims: Mapping[str, Any]) -> Sequence[str]:
    """Return the audiences in claims."""
    found = claims["aud"]
    return [found] if isinstance(found, str) else [str(item) for item in found]


def _check_not_deleted(item: AnyObject, now: float) -> None:
    metadata = item.metadata
    if not metadata.HasField("deletion_timestamp"):
        return
    if seconds_of(metadata.deletion_timestamp) < now - _DELETED_LEEWAY:
        raise TokenRejected(_INVALIDATED)


def _check_claims(claims: Mapping[str, Any], issuer: str) -> None:
    """Raise TokenRejected unless claims have the form of those that this server signs."""
    try:
        private = claims["kubernetes.io"]
        named = [private["serviceaccount"], *(private[c] for c in BINDABLE if c in private)]
        texts = [private["namespace"], private["serviceaccount"]["uid"]]
        texts += [item["name"] for item in named]
        good = all(isinstance(text, str) and text for text in texts)
        good = good and isinstance(claims["exp"], int | float) and bool(claims["aud"])
    except (KeyError, TypeError):
        good = False
    if not good or claims.get("iss") != issuer:
        raise TokenRejected("it is not a token of a service account of this issuer")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
