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
from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.settings import ServerSettings

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


class TokenFlags(NamedTuple):
    """Whose tokens are accepted, and where."""

    file: str
    """Hashes of tokens; "" for none."""
    listen: str
    jwt: JwtSettings | None


def token_flags(
    token_file: TokenHashes = None,
    token_listen: TokenListen = None,
    jwt_issuer: Issuer = "",
    jwt_audience: Audience = "",
    jwt_jwks: Jwks = "",
    jwt_user_claim: UserClaim = "sub",
    jwt_groups_claim: GroupsClaim = "groups",
) -> TokenFlags:
    """Return what the options ask for; exit if those about JSON Web Tokens do not fit together."""
    jwt = None
    given = (jwt_issuer, jwt_audience, jwt_jwks)
    if any(given):
        if not all(given):
            fail("--jwt-issuer, --jwt-audience and --jwt-jwks must be used together", USAGE)
        jwt = JwtSettings(
            issuer=jwt_issuer,
            audience=jwt_audience,
            jwks=jwt_jwks,
            user_claim=jwt_user_claim,
            groups_claim=jwt_groups_claim,
        )
        if not jwt.is_url:
            file_or_fail("--jwt-jwks", Path(jwt_jwks))
        elif not jwt_jwks.startswith("https:") and not _is_local(jwt_jwks):
            why = "whoever is on the way could put in keys: use https"
            fail(f"--jwt-jwks {jwt_jwks}: {why}", USAGE)
    return TokenFlags(file_or_fail("--token-file", token_file), token_listen or "", jwt)


def with_tokens(settings: ServerSettings, tokens: TokenFlags) -> ServerSettings:
    """Return settings that accept tokens.

    Exits if tokens would cross the network in clear, or if nobody could show one.
    """
    accepted, listen = bool(tokens.file or tokens.jwt), tokens.listen
    if listen:
        split_address("--token-listen", listen)
    if listen and not (accepted and settings.tls_client_ca):
        fail("--token-listen is for tokens beside --tls-client-ca", USAGE)
    if accepted and settings.tls_client_ca and not listen:
        fail(
            "--tls-client-ca demands a certificate of everyone at --listen: give an address for "
            "clients with tokens, too, with --token-listen",
            USAGE,
        )
    if accepted and not settings.tls_cert and not is_loopback(settings.host):
        address = f"{settings.host}:{settings.port}"
        fail(f"--listen {address}: tokens cross the network only with --tls-cert", USAGE)
    return replace(settings, token_file=tokens.file, token_listen=listen, jwt=tokens.jwt)


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
