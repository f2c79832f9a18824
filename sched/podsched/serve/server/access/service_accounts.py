"""Issues and verifies the tokens of ServiceAccounts.

A token is a JSON Web Token with Kubernetes' claims (pkg/serviceaccount/claims.go, v1.36). It is
bound to its ServiceAccount and, mostly, to a pod, Secret or node: it is refused once one of these
is gone, replaced by one with another uid, or was deleted more than a minute ago.

The signature of a token is verified once; what it is bound to is looked up in the watch cache at
each call. Unlike kube-apiserver, no token is extended to a year: it ends when its request says.
"""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jwt as pyjwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ServiceAccount, seconds_of
from podsched.serve.server.access.identity import (
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNTS,
    Authentication,
    Identity,
    TokenRejected,
)
from podsched.serve.server.access.settings import AccessError, ServiceAccountSettings
from podsched.serve.server.watchcache import WatchCache

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
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_Public = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


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
        return self._bound_identity(claims, now)

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
            frozenset({SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED}),
            Authentication.SERVICE_ACCOUNT,
            float(claims["exp"]),
            account["uid"],
            tuple((f"{_EXTRA}{name}", value) for name, value in extra),
        )

    def _find(self, kind: str, namespace: str, name: str) -> AnyObject | None:
        entry = self._cache.get(KINDS[kind], local_key(KINDS[kind], namespace, name))
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


class SigningKeyError(AccessError):
    """A key that cannot be used; the message names the file, and has nothing of the key."""


class SigningKeys:
    """The keys of tokens: one signs, all of them verify. Raises SigningKeyError, OSError.

    As in kube-apiserver, a key's id is the hash of its public key, so that all API servers with the
    same files agree on it. To rotate: add the new public key to all servers, then make its private
    key the signing one, then remove the old public key when the last token signed with it has
    expired.
    """

    def __init__(self, settings: ServiceAccountSettings) -> None:
        self._private = _private_key(settings.token_key)
        public = [self._private.public_key(), *map(_public_key, settings.verifying_keys)]
        #: The public keys by id.
        self._public = {key_id(key): key for key in public}
        self.signing_id = key_id(public[0])

    def signed(self, claims: dict[str, Any]) -> str:
        """Return a token with these claims."""
        algorithm = _algorithm(self._private.public_key())
        return pyjwt.encode(
            claims, self._private, algorithm=algorithm, headers={"kid": self.signing_id}
        )

    def verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token with a valid signature, unchecked.

        Raises pyjwt.PyJWTError, ValueError.
        """
        key = self._public.get(str(pyjwt.get_unverified_header(token).get("kid", "")))
        if key is None:
            raise pyjwt.InvalidKeyError("it is signed with a key that is not among the server's")
        found: dict[str, Any] = pyjwt.decode(
            token,
            key,
            algorithms=[_algorithm(key)],
            options={
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
            },
        )
        return found

    def jwks(self) -> dict[str, Any]:
        """Return the public keys as a JSON Web Key Set."""
        return {"keys": [_jwk(name, key) for name, key in self._public.items()]}


def key_id(key: _Public) -> str:
    """Return the id of a public key."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")


def _jwk(name: str, key: _Public) -> dict[str, Any]:
    if isinstance(key, rsa.RSAPublicKey):
        found = RSAAlgorithm.to_jwk(key, as_dict=True)
    else:
        found = ECAlgorithm.to_jwk(key, as_dict=True)
    found.pop("key_ops", None)
    return {"use": "sig", "kid": name, "alg": _algorithm(key), **found}


def _algorithm(key: _Public) -> str:
    return "RS256" if isinstance(key, rsa.RSAPublicKey) else _CURVES[key.curve.name]


def _private_key(path: str) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(Path(path).read_bytes(), password=None)
    except (ValueError, TypeError):
        raise SigningKeyError(f"{path}: no private key in PEM format") from None
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise SigningKeyError(f"{path}: must be an RSA or elliptic-curve key")
    _check(path, key.public_key())
    return key


def _public_key(path: str) -> _Public:
    content = Path(path).read_bytes()
    try:
        key = load_pem_public_key(content)
    except (ValueError, TypeError):
        return _private_key(path).public_key()
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise SigningKeyError(f"{path}: must be an RSA or elliptic-curve key")
    _check(path, key)
    return key


def _check(path: str, key: _Public) -> None:
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < 2048:
            raise SigningKeyError(f"{path}: an RSA key must have 2048 bits or more")
    elif key.curve.name not in _CURVES:
        raise SigningKeyError(f"{path}: the curve must be P-256, P-384 or P-521")
