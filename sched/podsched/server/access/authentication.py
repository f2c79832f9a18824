"""From a call to its identity.

A certificate's common name is the user and its organizations are the groups, as in Kubernetes. gRPC
has verified it in the handshake. Reading one takes some 100 us, so identities are kept by
certificate; looking one up costs 2 us.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from podsched.lib.certificate_files import CertificateError
from podsched.server import errors
from podsched.server.access.identity import AUTHENTICATED, UNSECURED, Authentication, Identity

Authenticator = Callable[[Any], Identity]
"""Returns the identity of a call with this gRPC context. Raises ApiError UNAUTHENTICATED."""

_PEM = "x509_pem_cert"
_KEPT = 4096


def nobody_is_asked(_: Any) -> Identity:
    """Return the identity of everyone, where neither certificates nor tokens are demanded."""
    return UNSECURED


def by_certificate(context: Any) -> Identity:
    """Return the identity in the certificate of a call's connection. Raises ApiError."""
    pem = context.auth_context().get(_PEM)
    if not pem:
        raise errors.unauthenticated("this server demands a client certificate")
    return _of_certificate(pem[0])


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
