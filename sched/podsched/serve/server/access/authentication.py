"""Authenticates calls by the certificate of their connection or by a bearer token.

A certificate's common name is the user and its organizations are the groups, as in Kubernetes. It
was verified in the TLS handshake. Parsing one takes about 100 us, so identities are cached by
certificate; a lookup takes 5 us. A token is in the metadata of each call, "authorization: Bearer
TOKEN". It is ignored if the connection has a certificate. Anonymous callers are refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from podsched.lib.certificate_error import CertificateError
from podsched.serve.server import errors
from podsched.serve.server.access.identity import (
    AUTHENTICATED,
    UNSECURED,
    Authentication,
    Identity,
    TokenRejected,
)
from podsched.serve.server.access.tokens import TokenFile

if TYPE_CHECKING:
    from podsched.serve.server.access.bootstrap_tokens import BootstrapTokens
    from podsched.serve.server.access.jwt import JwtVerifier
    from podsched.serve.server.access.service_accounts import ServiceAccountTokens


class CallContext(Protocol):
    """What a transport provides of a call; gRPC's contexts implement it."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return the headers, their names in lower case."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the verified certificate of the client in PEM as ``x509_pem_cert``, if any."""

    def peer(self) -> str:
        """Return the client's address in gRPC's format: "ipv4:10.0.0.1:4711"."""


Authenticator = Callable[[Any], Identity]
"""Returns the identity of a call with this context. Raises ApiError UNAUTHENTICATED."""

_PEM = "x509_pem_cert"
#: Max cached identities.
_KEPT = 4096
_BEARER = "bearer "


def no_authentication(_: Any) -> Identity:
    """Return the identity of every caller if neither certificates nor tokens are required."""
    return UNSECURED


class CallAuthenticator:
    """Authenticates each call by certificate or token, whichever the server accepts."""

    def __init__(
        self,
        *,
        certificates: bool = False,
        tokens: TokenFile | None = None,
        jwt: JwtVerifier | None = None,
        accounts: ServiceAccountTokens | None = None,
        bootstrap: BootstrapTokens | None = None,
    ) -> None:
        """certificates: at least one listener requires and verifies them."""
        self._certificates = certificates
        self._tokens = tokens
        self._jwt = jwt
        self._accounts = accounts
        self._bootstrap = bootstrap

    def __call__(self, context: Any) -> Identity:
        """Return the identity of a call. Raises ApiError UNAUTHENTICATED."""
        if self._certificates:
            pem = context.auth_context().get(_PEM)
            if pem:
                return _of_certificate(pem[0])
        token = _token_in(context)
        if not token:
            raise errors.unauthenticated(f"the call has no {self._wanted()}")
        try:
            return self.of_token(token)
        except TokenRejected as rejected:
            raise errors.unauthenticated(str(rejected)) from None

    def of_token(self, token: str, audiences: Sequence[str] = ()) -> Identity:
        """Return the identity of a bearer token; audiences: of ServiceAccount tokens.

        Raises TokenRejected.
        """
        identity = self._identity_of(token, audiences)
        # A review of a token has no other check; identities are kept longer than they are valid.
        if identity.expires <= time.time():
            raise TokenRejected("the credential has expired")
        # A watch checks the token again while it lasts: it may be withdrawn.
        return replace(identity, recheck=partial(self._check_same, identity, token, audiences))

    def _check_same(self, before: Identity, token: str, audiences: Sequence[str]) -> None:
        """Raise TokenRejected unless a token still has the identity that it had."""
        if self._identity_of(token, audiences) != before:
            raise TokenRejected("the token has another identity now")

    def _identity_of(self, token: str, audiences: Sequence[str]) -> Identity:
        identity = self._tokens.identity_of(token) if self._tokens is not None else None
        if identity is None and self._bootstrap is not None:
            identity = self._bootstrap.identity_of(token)
        if identity is not None:
            return identity
        try:
            if self._accounts is not None and self._accounts.is_issuer_of(token):
                return self._accounts.identity_of(token, audiences)
            if self._jwt is not None:
                return self._jwt.identity_of(token)
        except TokenRejected as rejected:
            raise TokenRejected(f"the token is not accepted: {rejected}") from None
        raise TokenRejected("the token is not known to this server")

    def _wanted(self) -> str:
        sources = (self._tokens, self._jwt, self._accounts, self._bootstrap)
        tokens = any(source is not None for source in sources)
        accepted = ["client certificate"] * self._certificates + ["bearer token"] * tokens
        return " or ".join(accepted)


def _token_in(context: Any) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            text = str(value)
            return text[len(_BEARER) :].strip() if text[: len(_BEARER)].lower() == _BEARER else ""
    return ""


@lru_cache(maxsize=_KEPT)
def _of_certificate(pem: bytes) -> Identity:
    # Only servers with TLS import the library.
    from podsched.lib.certificates import subject_of

    try:
        found = subject_of(pem)
    except CertificateError as error:
        raise errors.unauthenticated(f"the client certificate: {error}") from None
    groups = frozenset({*found.groups, AUTHENTICATED})
    return Identity(found.user, groups, Authentication.CERTIFICATE, found.not_after.timestamp())
