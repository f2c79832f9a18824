"""TLS contexts for asyncio's listeners and connections, which reload changed certificates.

gRPC has its own TLS (``serve.server.server``, ``serve.client.channels``). TLS sessions are not
resumed: a client whose authority is no longer trusted could connect with its old session.
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
    """Paths of PEM files: CA certificates for the peer ("": not verified), certificate and key."""

    authorities: str
    certificate: str
    key: str
    oldest: ssl.TLSVersion = field(default=ssl.TLSVersion.TLSv1_2, kw_only=True)
    """The oldest TLS version that a listener accepts."""

    def latest(self) -> CertificateFiles:
        """Read the files; return an object that can reload them. Raises CertificateError."""
        return CertificateFiles(self.authorities, self.certificate, self.key)


class _ReloadedContext:
    """An SSL context that is created again when its files have changed."""

    def __init__(self, files: TlsFiles, warn: Callable[[str], None]) -> None:
        self._names = files
        self._files = files.latest()
        self._warn = warn
        self._latest = self._make()

    def latest(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        try:
            if self._files.changed(self._warn):
                self._latest = self._make()
        except CertificateError as error:
            self._warn(str(error))
        return self._latest

    def _make(self) -> ssl.SSLContext:
        raise NotImplementedError


class ServingContext(_ReloadedContext):
    """The SSL ``context`` of a listener; each handshake uses the latest certificates.

    With authorities, clients may present a certificate; with ``demand`` they must.
    """

    def __init__(
        self, files: TlsFiles, warn: Callable[[str], None], *, demand: bool = False
    ) -> None:
        """Read the files; ``warn`` is called later if changed files cannot be used.

        Raises CertificateError for files that cannot be used, or a certificate for clients only.
        """
        self._demand = demand
        super().__init__(files, warn)
        self.context = self._latest
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Set the latest context for a handshake.

        This is the callback for server names. OpenSSL calls it in every handshake, even if the
        client sends no name, so it is the place to replace certificates of a listening socket.
        """
        latest = self.latest()
        if latest is not self.context:
            connection.context = latest

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


class ConnectingContext(_ReloadedContext):
    """The SSL context of outgoing connections, with an own certificate if the files have one.

    any_host: do not require that the peer's certificate has the address in its names; the caller
    checks its user instead (``user_of``). verify: if False, any certificate of the peer will do.
    """

    def __init__(
        self,
        files: TlsFiles,
        warn: Callable[[str], None],
        *,
        any_host: bool = False,
        verify: bool = True,
    ) -> None:
        """Read the files; ``warn`` is called later if changed files cannot be used.

        Raises CertificateError.
        """
        self._any_host = any_host
        self._verify = verify
        super().__init__(files, warn)

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self._verify and not self._any_host
        if not self._verify:
            context.verify_mode = ssl.CERT_NONE
        return _load(context, self._names, self._files)


def _load(context: ssl.SSLContext, names: TlsFiles, files: CertificateFiles) -> ssl.SSLContext:
    pems = files.pems
    try:
        if pems.authorities is not None:
            # Only comments have other characters, and they would raise a TypeError.
            context.load_verify_locations(cadata=pems.authorities.decode("ascii", "ignore"))
        if names.certificate:
            # ssl can only load a chain from files. If these have changed since ``pems`` was read,
            # the next connection reloads them.
            context.load_cert_chain(names.certificate, names.key)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise CertificateError(f"{names.certificate or names.authorities}: {error}") from error
    return context


def user_of(transport: asyncio.BaseTransport) -> str:
    """Return the common name in the peer's verified certificate; "" without a certificate."""
    certificate = transport.get_extra_info("peercert") or {}
    names = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return str(names.get("commonName", ""))
