"""How callers are authenticated; each is a flag of ``sched apiserver``."""

from __future__ import annotations

from dataclasses import dataclass


class AccessError(Exception):
    """What authentication needs cannot be had or used; the text names the file or URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """Whose tokens are accepted."""

    issuer: str
    """The claim ``iss`` that a token must have, exactly."""
    audience: str
    """What its claim ``aud`` must include: tokens for others are worth nothing here."""
    jwks: str
    """File or https URL with the issuer's public keys."""
    user_claim: str = "sub"
    """The claim with the user's name."""
    groups_claim: str = "groups"
    """The claim with the names of the user's groups."""

    @property
    def is_url(self) -> bool:
        """Whether the keys are at a URL."""
        return self.jwks.startswith(("https://", "http://"))
