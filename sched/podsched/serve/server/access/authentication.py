"""From a call to its identity: by the certificate of its connection, or by a bearer token.

A certificate's common name is the user and its organizations are the groups, as in Kubernetes. TLS
has verified it in the handshake. Reading one takes some 100 us, so identities are kept by
certificate; looking one up costs 5 us. A token stands in the metadata of each call,
"authorization: Bearer TOKEN". A connection with a certificate needs none, and one that is sent
there is not looked at. Nobody is anonymous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
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
    from podsched.serve.server.access.jwt import JwtVerifier


class CallContext(Protocol):
    """What a face tells of a call; gRPC's contexts have it."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return the headers, their names in lower case."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the verified certificate of the client in PEM as ``x509_pem_cert``, if any."""

    def peer(self) -> str:
        """Return the connection, as gRPC names it: "ipv4:10.0.0.1:4711"."""


Authenticator = Callable[[Any], Identity]
"""Returns the identity of a call with this context. Raises ApiError UNAUTHENTICATED."""

_PEM = "x509_pem_cert"
_KEPT = 4096
_BEARER = "bearer "


def nobody_is_asked(_: Any) -> Identity:
    """Return the identity of everyone, where neither certificates nor tokens are demanded."""
    return UNSECURED


class CallAuthenticator:
    """Asks each call for a certificate or a token, whichever the server accepts."""

    def __init__(
        self,
        *,
        certificates: bool = False,
        tokens: TokenFile | None = None,
        jwt: JwtVerifier | None = None,
    ) -> None:
        """certificates: gRPC demands and verifies them on a listener at least."""
        self._certificates = certificates
        self._tokens = tokens
        self._jwt = jwt

    def __call__(self, context: Any) -> Identity:
        """Return the identity of a call. Raises ApiError UNAUTHENTICATED."""
        if self._certificates:
            pem = context.auth_context().get(_PEM)
            if pem:
                return _of_certificate(pem[0])
        token = _token_in(context)
        if not token:
            raise errors.unauthenticated(f"the call has no {self._wanted()}")
        identity = self._tokens.identity_of(token) if self._tokens is not None else None
        if identity is not None:
            return identity
        if self._jwt is None:
            raise errors.unauthenticated("the token is not known to this server")
        try:
            return self._jwt.identity_of(token)
        except TokenRejected as rejected:
            raise errors.unauthenticated(f"the token is not accepted: {rejected}") from None

    def _wanted(self) -> str:
        tokens = self._tokens is not None or self._jwt is not None
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
    # Only servers with TLS load the library.
    from podsched.lib.certificates import subject_of

    try:
        found = subject_of(pem)
    except CertificateError as error:
        raise errors.unauthenticated(f"the client certificate: {error}") from None
    groups = frozenset({*found.groups, AUTHENTICATED})
    return Identity(found.user, groups, Authentication.CERTIFICATE, found.not_after.timestamp())
