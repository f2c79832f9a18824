"""Provides gRPC with the TLS certificates of an API server, reloaded when their files change.

gRPC asks for them before each handshake, so the next connection uses a new certificate; open
connections are not affected.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import grpc

from podsched.lib.certificate_error import CertificateError
from podsched.lib.certificate_files import CertificateFiles
from podsched.lib.certificates import describe
from podsched.serve.server.settings import ServerSettings
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")


class ServerCertificates:
    """The certificate, key and client CAs in files. Raises CertificateError."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._files = CertificateFiles(settings.tls_client_ca, settings.tls_cert, settings.tls_key)
        # gRPC calls from its own threads.
        self._lock = threading.Lock()

    def credentials(self, *, demanding: bool) -> grpc.ServerCredentials:
        """Return credentials that give each new connection the latest certificates.

        demanding: clients must present a certificate of one of the CAs.
        """
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self.changed,
            require_client_authentication=demanding,
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates if the files have changed and are valid; None otherwise."""
        with self._lock:
            try:
                return self._configuration() if self._files.changed() else None
            except CertificateError as error:
                _log.warning("Keeping the certificates in use", error=str(error))
                return None

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        pems = self._files.pems
        assert pems.certificate is not None
        own = describe(pems.certificate, self._settings.tls_cert)[0]
        _log.info("Certificate loaded", subject=own.subject, not_after=own.not_after.isoformat())
        if problem := own.problem(datetime.now(UTC)):
            _log.warning("The server's certificate needs renewal", problem=problem)
        return grpc.ssl_server_certificate_configuration(
            [(pems.key, pems.certificate)], pems.authorities
        )
