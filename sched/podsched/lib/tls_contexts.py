"""TLS for listeners and connections of asyncio, with certificates read anew when they change.

gRPC has its own (``serve.server.credentials``, ``serve.client.channels``). Sessions are not
resumed: a client whose authority was replaced would get in by its old session.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from podsched.lib.certificate_error import CertificateError
from podsched.lib.certificate_files import CertificateFiles


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the other side's authorities ("": not verified), certificate chain and key."""

    authorities: str
    certificate: str
    key: str
    oldest: ssl.TLSVersion = field(default=ssl.TLSVersion.TLSv1_2, kw_only=True)
    """The oldest version of TLS that a listener speaks."""

    def latest(self) -> CertificateFiles:
        """Return their contents, which can be read anew. Raises CertificateError."""
        return CertificateFiles(self.authorities, self.certificate, self.key)


class ServingContext:
    """The ``context`` of a listener, of which each handshake gets the latest certificates.

    With authorities clients may show a certificate; with ``demand`` they must.
    """

    def __init__(
        self,
        files: TlsFiles,
        warn: Callable[[str], None],
        *,
        demand: bool = False,
    ) -> None:
        """Read the files; ``warn`` is called later if changed files cannot be used.

        Raises CertificateError for files that cannot be used, or a certificate for clients only.
        """
        self._names = files
        self._files = files.latest()
        self._warn = warn
        self._demand = demand
        self._latest = self.context = self._make()
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Give a handshake the latest context; called even if the client names no host."""
        try:
            if self._files.changed():
                self._latest = self._make()
        except CertificateError as error:
            self._warn(str(error))
        if self._latest is not self.context:
            connection.context = self._latest

    def _make(self) -> ssl.SSLContext:
        from podsched.lib.certificates import check_may_serve

        pem = self._files.pems.certificate
        assert pem is not None
        check_may_serve(pem, self._names.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._names.oldest
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        if self._names.authorities:
            context.verify_mode = ssl.CERT_REQUIRED if self._demand else ssl.CERT_OPTIONAL
        return _load(context, self._names, self._files)


class ConnectingContext:
    """The context of connections that this process opens, with its own certificate if it has one.

    ``any_host``: the certificate need not name the address that was called; the caller looks at its
    user (``user_of``).
    """

    def __init__(
        self, files: TlsFiles, warn: Callable[[str], None], *, any_host: bool = False
    ) -> None:
        """As ``ServingContext``. Raises CertificateError."""
        self._names = files
        self._files = files.latest()
        self._warn = warn
        self._any_host = any_host
        self._context = self._make()

    def latest(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        try:
            if self._files.changed():
                self._context = self._make()
        except CertificateError as error:
            self._warn(str(error))
        return self._context

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = not self._any_host
        return _load(context, self._names, self._files)


def _load(context: ssl.SSLContext, names: TlsFiles, files: CertificateFiles) -> ssl.SSLContext:
    pems = files.pems
    try:
        if pems.authorities is not None:
            context.load_verify_locations(cadata=pems.authorities.decode())
        if names.certificate:
            # From the files, which may have changed since they were read: then they are read again
            # at the next connection.
            context.load_cert_chain(names.certificate, names.key)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise CertificateError(f"{names.certificate or names.authorities}: {error}") from error
    return context


def user_of(transport: asyncio.BaseTransport) -> str:
    """Return the common name in the verified certificate of the other side; "" without one."""
    certificate = transport.get_extra_info("peercert") or {}
    names = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return str(names.get("commonName", ""))
