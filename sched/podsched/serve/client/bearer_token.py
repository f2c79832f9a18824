"""Reads the bearer token that a client sends with every call from a file that may change."""

from __future__ import annotations

import re

from podsched.lib.certificate_error import CertificateError
from podsched.lib.changing_file import ChangingFile
from podsched.lib.network import is_loopback
from podsched.telemetry.logs import get_logger

_log = get_logger("client")

#: RFC 6750's syntax with a maximum length, because metadata is limited.
_TOKEN = re.compile(rb"[-A-Za-z0-9._~+/]{1,8192}=*")


class BearerToken:
    """A token in a file, with or without a line break at the end.

    Raises CertificateError if the file cannot be read or has no token.
    """

    def __init__(self, path: str) -> None:
        try:
            self._file = ChangingFile(path)
        except OSError as error:
            raise CertificateError(f"{path}: {error.strerror}") from error
        self._token = self._read()

    def latest(self) -> str:
        """Return the token to send with a call."""
        if self._file.changed():
            try:
                self._token = self._read()
            except CertificateError as error:
                _log.warning("Keeping the token in use", error=str(error))
        return self._token

    def _read(self) -> str:
        token = self._file.content.strip()
        if not _TOKEN.fullmatch(token):
            raise CertificateError(f"{self._file.path}: contains no bearer token")
        return token.decode()


def check_in_clear(endpoint: str) -> None:
    """Raise CertificateError unless an endpoint without TLS is on this machine.

    Otherwise others on the network could read the token.
    """
    if not is_loopback(endpoint.rpartition(":")[0]):
        raise CertificateError(
            f"{endpoint}: a token is sent to other machines only with TLS: give --tls-ca"
        )
