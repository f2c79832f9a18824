"""The keys of ServiceAccount tokens: one signs, all of them verify.

As in kube-apiserver, a key's id is the hash of its public key, so that all API servers with the
same files agree on it. To rotate: add the new public key to all servers, then make its private key
the signing one, then remove the old public key when the last token signed with it has expired.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jwt as pyjwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from podsched.serve.server.access.settings import AccessError, ServiceAccountSettings

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_Public = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class SigningKeyError(AccessError):
    """A key that cannot be used; the message names the file, and has nothing of the key."""


class SigningKeys:
    """Signs and verifies. Raises SigningKeyError, OSError."""

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
