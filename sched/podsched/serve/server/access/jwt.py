"""Verifies JSON Web Tokens of one issuer, such as an OpenID Connect provider, by its public keys.

A token must be signed with a key of the issuer's JWKS, by an algorithm with public keys, and name
issuer, audience, subject and a time of expiry. ``sub`` is the user and ``groups`` are the groups,
unless the settings name other claims. Users and groups that begin with "system:" are refused except
for those of service accounts, so an issuer cannot grant built-in identities.

Verifying a signature takes 100 us, so valid tokens are cached until they expire or the keys change.
Keys come from a file, reloaded when it changes, or from a URL, fetched every ten minutes, and
sooner if a token has an unknown key.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import jwt as pyjwt

from podsched.lib.changing_file import ChangingFile
from podsched.serve.server.access.identity import (
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    Authentication,
    Identity,
    TokenRejected,
)
from podsched.serve.server.access.settings import AccessError, JwtSettings
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
#: No algorithms with a secret shared by issuer and server.
_ALGORITHMS = [*_RSA, "ES256", "ES384", "ES512", "EdDSA"]
#: Seconds that an issuer's clock may be ahead.
_LEEWAY = 10
#: Max cached tokens, characters of a token and groups of an identity.
_KEPT = 4096
_LONGEST_TOKEN = 8192
_MAX_GROUPS = 1000
#: Seconds between two fetches of the keys: normally, and at least. The latter bounds the requests
#: to the issuer that tokens with unknown keys can cause.
_REFRESH_SECONDS, _LEAST_SECONDS = 600.0, 10.0
_FETCH_TIMEOUT = 10.0
#: Max bytes of a key set.
_MAX_BYTES = 1 << 20


class JwksError(AccessError):
    """Keys that cannot be loaded or used; the message names their file or URL."""


def keys_of(content: bytes, source: str) -> Mapping[str, pyjwt.PyJWK]:
    """Return the public keys of a JWKS by their ids. Raises JwksError."""
    try:
        listed = json.loads(content)["keys"]
        keys = {}
        for item in listed:
            if item.get("use", "sig") == "sig" and item.get("kty") in ("RSA", "EC", "OKP"):
                keys[str(item.get("kid", ""))] = pyjwt.PyJWK.from_dict(item)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise JwksError(f"{source}: no JSON Web Key Set: {error}") from None
    except pyjwt.PyJWTError as error:
        raise JwksError(f"{source}: {error}") from None
    if not keys:
        raise JwksError(f"{source}: contains no public key")
    return keys


class JwtVerifier:
    """Authenticates an issuer's tokens. Raises JwksError, OSError for a file."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys: Mapping[str, pyjwt.PyJWK] = {}
        self._good: dict[bytes, Identity] = {}
        self._file: ChangingFile | None = None
        self._wanted = asyncio.Event()
        if not settings.is_url:
            self._file = ChangingFile(settings.jwks)
            self._keys = keys_of(self._file.content, settings.jwks)

    @property
    def issuer(self) -> str:
        """The issuer, the ``iss`` claim of its tokens."""
        return self._settings.issuer

    def identity_of(self, token: str) -> Identity:
        """Return the identity in a token. Raises TokenRejected."""
        self._reread()
        if len(token) > _LONGEST_TOKEN:
            raise TokenRejected(f"it is longer than {_LONGEST_TOKEN} characters")

        key = hashlib.sha256(token.encode()).digest()
        # What was verified is not verified again; ``pipeline`` checks the expiry in each call.
        identity = self._good.get(key)
        if identity is None:
            identity = self._verified(token)
            if len(self._good) >= _KEPT:
                self._good.clear()
            self._good[key] = identity
        return identity

    def _verified(self, token: str) -> Identity:
        """Verify a token's signature, issuer, audience and expiry. Raises TokenRejected."""
        settings = self._settings
        try:
            key = self._key_of(str(pyjwt.get_unverified_header(token).get("kid", "")))
            claims = pyjwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud", settings.user_claim]},
            )
        except (pyjwt.PyJWTError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise TokenRejected(str(error)) from None
        return self._identity(claims)

    def _key_of(self, name: str) -> pyjwt.PyJWK:
        key = self._keys.get(name)
        if key is None and not name and len(self._keys) == 1:
            # The token names no key ("kid" is optional), and the issuer has only one.
            return next(iter(self._keys.values()))
        if key is None:
            self._wanted.set()
            raise TokenRejected("it is signed with a key that is not among the issuer's")
        return key

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        """Return the identity that verified claims describe. Raises TokenRejected."""
        settings = self._settings
        user, groups = claims[settings.user_claim], claims.get(settings.groups_claim, [])
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(user, str) or not user:
            raise TokenRejected(f'its claim "{settings.user_claim}" is not a name')
        if not isinstance(groups, list) or not all(isinstance(g, str) for g in groups):
            raise TokenRejected(f'its claim "{settings.groups_claim}" is not a list of names')
        if len(groups) > _MAX_GROUPS:
            raise TokenRejected(f"it has more than {_MAX_GROUPS} groups")
        for name in (user, *groups):
            if not _is_text(name):
                raise TokenRejected("it claims a name that is not Unicode text")
            if name.startswith("system:") and not name.startswith(SERVICE_ACCOUNT_PREFIX):
                raise TokenRejected(f'no token of an issuer may claim the name "{name[:100]}"')
        names = frozenset({*groups, AUTHENTICATED})
        try:
            expires = float(claims["exp"])
        except (OverflowError, ValueError):
            raise TokenRejected('its claim "exp" is not a time') from None
        return Identity(user, names, Authentication.JWT, expires)

    # ------------------------------------------------------------------ keys

    def _reread(self) -> None:
        if self._file is not None and self._file.changed():
            try:
                self._use(keys_of(self._file.content, self._file.path))
            except JwksError as error:
                _log.warning("Keeping the issuer's keys in use", error=str(error))

    def _use(self, keys: Mapping[str, pyjwt.PyJWK]) -> None:
        self._keys = keys
        # A key may have been withdrawn, and with it the tokens that it has signed.
        self._good.clear()
        _log.info("Keys of the tokens' issuer loaded", issuer=self.issuer, keys=len(keys))

    async def run(self) -> None:
        """Refresh the keys from a URL until cancelled; return at once if they are in a file."""
        seen = b""
        while self._settings.is_url:
            try:
                content = await fetch(self._settings.jwks)
                if content != seen:
                    self._use(keys_of(content, self._settings.jwks))
                    seen = content
            except JwksError as error:
                _log.warning("The issuer's keys cannot be loaded", error=str(error))
                self._wanted.set()
            await asyncio.sleep(_LEAST_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS - _LEAST_SECONDS):
                    await self._wanted.wait()
            self._wanted.clear()


def _is_text(name: str) -> bool:
    """Return whether a name is valid Unicode; JSON may contain unpaired surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


async def fetch(url: str) -> bytes:
    """Fetch a URL, without redirects and at most 1 MiB. Raises JwksError."""
    # Only servers with such a URL import the library.
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_FETCH_TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise JwksError(f"{url}: answers {answer.status}")
            content = await answer.content.read(_MAX_BYTES + 1)
            while content and len(content) <= _MAX_BYTES and not answer.content.at_eof():
                content += await answer.content.read(_MAX_BYTES + 1 - len(content))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise JwksError(f"{url}: {error or type(error).__name__}") from error
    if len(content) > _MAX_BYTES:
        raise JwksError(f"{url}: larger than {_MAX_BYTES} bytes")
    return content
