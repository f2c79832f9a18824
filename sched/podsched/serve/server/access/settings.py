"""Settings of authentication; each is a flag of ``sched apiserver``."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.config.flags import flag

_TOKENS = "Tokens"


class AccessError(Exception):
    """Keys or tokens that cannot be loaded or used; the message names their file or URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """Settings of accepted JSON Web Tokens."""

    issuer: str = flag("", "NAME", _TOKENS, names="--jwt-issuer")
    """Issuer (iss) of the JSON Web Tokens that are accepted."""
    audience: str = flag("", "NAME", _TOKENS, names="--jwt-audience")
    """Required audience (aud).

    Tokens for other audiences are refused.
    """
    jwks: str = flag("", "FILE|URL", _TOKENS, names="--jwt-jwks")
    """Public keys to verify them with, as a JSON Web Key Set."""
    user_claim: str = flag("sub", "CLAIM", _TOKENS, names="--jwt-user-claim")
    """Claim with the user."""
    groups_claim: str = flag("groups", "CLAIM", _TOKENS, names="--jwt-groups-claim")
    """Claim with the groups."""

    @property
    def is_url(self) -> bool:
        """Whether the keys are at a URL."""
        return self.jwks.startswith(("https://", "http://"))
