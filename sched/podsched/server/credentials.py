"""The TLS certificates of an API server, read anew when their files change.

gRPC asks before each handshake, so that a new certificate serves the next connection; connections
that are open stay. Files are replaced one after the other: while the key does not belong to the
certificate, or a file is missing, the certificates read before stay in use.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import grpc

from podsched.lib.certificate_files import CertificateError, versions
from podsched.lib.certificates import check_pair, describe
from podsched.server.settings import ServerSettings
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")


class ServerCertificates:
    """The certificate, key and client authorities in files."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        files = (settings.tls_cert, settings.tls_key, settings.tls_client_ca)
        self._files = tuple(file for file in files if file)
        # gRPC asks from threads of its own.
        self._lock = threading.Lock()
        # Taken before reading: files that change meanwhile are read again at the next handshake.
        self._seen = versions(self._files)
        self._first = self._load()

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials of which each new connection gets the latest certificates."""
        return grpc.dynamic_ssl_server_credentials(
            self._first,
            self.changed,
            require_client_authentication=bool(self._settings.tls_client_ca),
        )

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates if the files have changed and can be used; None otherwise."""
        with self._lock:
            now = versions(self._files)
            if now == self._seen:
                return None
            self._seen = now
            try:
                return self._load()
            except (CertificateError, OSError) as error:
                _log.warning("Keeping the certificates in use", error=str(error))
                return None

    def _load(self) -> grpc.ServerCertificateConfiguration:
        settings = self._settings
        certificate = Path(settings.tls_cert).read_bytes()
        key = Path(settings.tls_key).read_bytes()
        check_pair(certificate, key, (settings.tls_cert, settings.tls_key))
        authorities = None
        if settings.tls_client_ca:
            authorities = Path(settings.tls_client_ca).read_bytes()
            describe(authorities, settings.tls_client_ca)
        own = describe(certificate, settings.tls_cert)[0]
        _log.info("Certificate loaded", subject=own.subject, not_after=own.not_after.isoformat())
        if problem := own.problem(datetime.now(UTC)):
            _log.warning("The server's certificate is of little use", problem=problem)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)
