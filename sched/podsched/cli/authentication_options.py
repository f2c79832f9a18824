"""Options of ``sched apiserver`` that say whose tokens it accepts."""

from __future__ import annotations

from urllib.parse import urlsplit

from podsched.cli.errors import USAGE, fail, file_or_fail
from podsched.cli.process_options import split_address
from podsched.lib.network import is_loopback
from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.settings import ServerSettings


def jwt_settings(jwt: JwtSettings) -> JwtSettings | None:
    """Return whose JSON Web Tokens are accepted; exit if the options do not fit together."""
    given = (jwt.issuer, jwt.audience, jwt.jwks)
    if not any(given):
        return None
    if not all(given):
        fail("--jwt-issuer, --jwt-audience and --jwt-jwks must be used together", USAGE)
    if not jwt.is_url:
        file_or_fail("--jwt-jwks", jwt.jwks)
    elif not jwt.jwks.startswith("https:") and not _is_local(jwt.jwks):
        why = "whoever is on the way could put in keys: use https"
        fail(f"--jwt-jwks {jwt.jwks}: {why}", USAGE)
    return jwt


def check_tokens(settings: ServerSettings) -> None:
    """Exit if tokens would cross the network in clear, or if nobody could show one."""
    file_or_fail("--token-file", settings.token_file)
    accepted, listen = bool(settings.token_file or settings.jwt), settings.token_listen
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


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
