"""Options of ``sched apiserver`` that say whose tokens it accepts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import typer

from podsched.cli.errors import USAGE, fail, file_or_fail
from podsched.cli.process_options import split_address
from podsched.lib.network import is_loopback
from podsched.server.access.settings import JwtSettings
from podsched.server.settings import ServerSettings

_PANEL = "Tokens"

TokenHashes = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        rich_help_panel=_PANEL,
        help="Hashes of the bearer tokens that are accepted, with user and groups; sched auth "
        "token makes its lines.",
    ),
]
TokenListen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        rich_help_panel=_PANEL,
        help="Listen address for clients with tokens, where --tls-client-ca demands a certificate "
        "of those at --listen.",
    ),
]
Issuer = Annotated[
    str,
    typer.Option(
        "--jwt-issuer",
        metavar="NAME",
        rich_help_panel=_PANEL,
        help="Issuer (iss) of the JSON Web Tokens that are accepted.",
    ),
]
Audience = Annotated[
    str,
    typer.Option(
        "--jwt-audience", metavar="NAME", rich_help_panel=_PANEL, help="Audience (aud) they name."
    ),
]
Jwks = Annotated[
    str,
    typer.Option(
        "--jwt-jwks",
        metavar="FILE|URL",
        rich_help_panel=_PANEL,
        help="Public keys that they are signed with, as a JSON Web Key Set.",
    ),
]
UserClaim = Annotated[
    str,
    typer.Option(
        "--jwt-user-claim", metavar="CLAIM", rich_help_panel=_PANEL, help="Claim with the user."
    ),
]
GroupsClaim = Annotated[
    str,
    typer.Option(
        "--jwt-groups-claim", metavar="CLAIM", rich_help_panel=_PANEL, help="Claim with the groups."
    ),
]


class JwtOptions(NamedTuple):
    """What was given of the options about JSON Web Tokens."""

    issuer: str
    audience: str
    jwks: str
    user_claim: str
    groups_claim: str

    def settings(self) -> JwtSettings | None:
        """Return whose tokens are accepted; exit if the options do not fit together."""
        given = (self.issuer, self.audience, self.jwks)
        if not any(given):
            return None
        if not all(given):
            fail("--jwt-issuer, --jwt-audience and --jwt-jwks must be used together", USAGE)
        settings = JwtSettings(**self._asdict())
        if not settings.is_url:
            file_or_fail("--jwt-jwks", Path(self.jwks))
        elif not self.jwks.startswith("https:") and not _is_local(self.jwks):
            why = "whoever is on the way could put in keys: use https"
            fail(f"--jwt-jwks {self.jwks}: {why}", USAGE)
        return settings


def with_tokens(
    settings: ServerSettings, file: Path | None, listen: str | None, jwt: JwtOptions
) -> ServerSettings:
    """Return settings that accept tokens.

    Exits if tokens would cross the network in clear, or if nobody could show one.
    """
    found = replace(
        settings,
        token_file=file_or_fail("--token-file", file),
        token_listen=listen or "",
        jwt=jwt.settings(),
    )
    tokens = bool(found.token_file or found.jwt)
    if listen:
        split_address("--token-listen", listen)
    if listen and not (tokens and found.tls_client_ca):
        fail("--token-listen is for tokens beside --tls-client-ca", USAGE)
    if tokens and found.tls_client_ca and not listen:
        fail(
            "--tls-client-ca demands a certificate of everyone at --listen: give an address for "
            "clients with tokens, too, with --token-listen",
            USAGE,
        )
    if tokens and not found.tls_cert and not is_loopback(found.host):
        address = f"{found.host}:{found.port}"
        fail(f"--listen {address}: tokens cross the network only with --tls-cert", USAGE)
    return found


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
