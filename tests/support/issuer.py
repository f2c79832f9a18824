"""An issuer of JSON Web Tokens with a key of its own."""

from __future__ import annotations

import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER, AUDIENCE = "https://issuer.example", "podsched"


class Issuer:
    """Signs tokens; ``name`` is the id of its key."""

    def __init__(self, name: str = "k1") -> None:
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())

    def jwk(self) -> dict[str, Any]:
        """Its public key."""
        found: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(
            self._key.public_key(), as_dict=True
        )
        return {**found, "kid": self.name, "use": "sig", "alg": "ES256"}

    def write(self, path: Path) -> Path:
        """Its key set in a file."""
        path.write_text(json.dumps({"keys": [self.jwk()]}))
        return path

    def token(self, user: str = "alice", *, kid: str | None = None, **claims: Any) -> str:
        """A token, good unless claims say otherwise; None leaves a claim out."""
        content: dict[str, Any] = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "exp": time.time() + 60,
        }
        content = {k: v for k, v in (content | claims).items() if v is not None}
        headers = {"kid": self.name if kid is None else kid}
        return jwt.encode(content, self._key, algorithm="ES256", headers=headers)


def rsa_token(kid: str) -> str:
    """A good token but for its key, which no issuer has."""
    key = rsa.generate_private_key(65537, 2048)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "eve", "exp": time.time() + 60}
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": kid})


def shared_secret_token(kid: str, secret: bytes) -> str:
    """A token signed with what everybody can read, as if it were a secret."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "eve", "exp": time.time() + 60}
    signed = ".".join(_encoded(json.dumps(p)) for p in ({"alg": "HS256", "kid": kid}, claims))
    return f"{signed}.{_encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"


def _encoded(part: str | bytes) -> str:
    raw = part.encode() if isinstance(part, str) else part
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
