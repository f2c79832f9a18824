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

    issuer: str = flag(
        "",
        "NAME",
        "Issuer (iss) of the JSON Web Tokens that are accepted.",
        _TOKENS,
        "--jwt-issuer",
    )
    audience: str = flag("", "NAME", "Audience (aud) they name.", _TOKENS, "--jwt-audience")
    """Tokens for other audiences are refused."""
    jwks: str = flag(
        "",
        "FILE|URL",
        "Public keys that they are signed with, as a JSON Web Key Set.",
        _TOKENS,
        "--jwt-jwks",
    )
    user_claim: str = flag("sub", "CLAIM", "Claim with the user.", _TOKENS, "--jwt-user-claim")
    groups_claim: str = flag(
        "groups", "CLAIM", "Claim with the groups.", _TOKENS, "--jwt-groups-claim"
    )

    @property
    def is_url(self) -> bool:
        """Whether the keys are at a URL."""
        return self.jwks.startswith(("https://", "http://"))
