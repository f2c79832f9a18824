"""kube-scheduler's options for serving its endpoints over HTTPS.

One of them is enough: the endpoints are then served at ``--bind-address`` and ``--secure-port``, as
kube-scheduler serves them, in place of ``--health-listen``.
"""

from __future__ import annotations

import atexit
import ssl
from dataclasses import dataclass
from pathlib import Path

from podsched.app.serving_certificate import serving_certificate
from podsched.cli.errors import FAILED, USAGE, fail, file_or_fail
from podsched.cli.flags import takes_flags
from podsched.config.flags import flag
from podsched.lib.certificate_error import CertificateError
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import TlsFiles

_PANEL = "Secure serving"
_PORT = 10259
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class _Given:
    bind_address: str = flag("", "ADDRESS", _PANEL)
    """Address for HTTPS, in place of --health-listen. Default, if one of these options is given:
    0.0.0.0, all addresses."""
    secure_port: int | None = flag(None, "PORT", _PANEL, min=0, max=65535, show_default=False)
    """Port for HTTPS; 0: no HTTPS. Default: 10259."""
    cert_dir: Path | None = flag(None, "DIRECTORY", _PANEL)
    """Directory of kube-scheduler.crt and kube-scheduler.key, made if missing. Without it and
    --tls-cert-file a certificate is made for this run."""
    tls_cert_file: Path | None = flag(None, "FILE", _PANEL)
    """Certificate for HTTPS, and its chain."""
    tls_private_key_file: Path | None = flag(None, "FILE", _PANEL)
    """Private key of --tls-cert-file."""
    tls_min_version: str = flag("", "VERSION", _PANEL, show_default=False)
    """Oldest version of TLS for HTTPS: VersionTLS12 or VersionTLS13."""
    client_ca_file: Path | None = flag(None, "FILE", _PANEL)
    """Authorities of the clients' certificates. Without it or --tls-ca, only the paths that are
    always allowed answer."""
    authorization_always_allow_paths: list[str] | None = flag(None, "PATH,...", _PANEL)
    """Paths that answer clients without a certificate; /healthz, /livez and /readyz always do."""


@dataclass(frozen=True, slots=True)
class ServingFlags:
    """What the options ask for, checked."""

    bind_address: str
    secure_port: int | None
    cert_dir: Path | None
    files: tuple[str, str]
    """Certificate and private key; "": to be made or found in ``cert_dir``."""
    oldest: ssl.TLSVersion | None
    client_ca: str
    open_paths: tuple[str, ...]

    @property
    def https(self) -> bool:
        """Whether to serve as kube-scheduler does; --secure-port=0 turns it off, as there."""
        given = (self.bind_address, self.cert_dir, *self.files, self.oldest, self.client_ca)
        return self.secure_port != 0 and (self.secure_port is not None or any(given))

    @property
    def address(self) -> str:
        """Where to listen, as HOST:PORT."""
        host = self.bind_address or "0.0.0.0"
        return f"{f'[{host}]' if ':' in host else host}:{self.secure_port or _PORT}"

    def tls(self, authorities: str) -> TlsFiles:
        """Return the files to serve with; exit if they cannot be made.

        ``authorities``: of clients, unless --client-ca-file names others.
        """
        certificate, key = self.files if all(self.files) else self._made()
        oldest = self.oldest or ssl.TLSVersion.TLSv1_2
        return TlsFiles(self.client_ca or authorities, certificate, key, oldest=oldest)

    def _made(self) -> tuple[str, str]:
        try:
            directory = self.cert_dir or _for_this_run()
            certificate, key = serving_certificate(directory, self.bind_address or "0.0.0.0")
        except CertificateError as exc:
            fail(f"--cert-dir: {exc}", FAILED)
        except OSError as exc:
            fail(f"--cert-dir {self.cert_dir or ''}: {exc.strerror or exc}", FAILED)
        return str(certificate), str(key)


def _for_this_run() -> Path:
    directory = RunDirectory("certificates")
    atexit.register(directory.remove)
    return directory.path


@takes_flags
def serving_flags(given: _Given) -> ServingFlags:
    """Return what the options ask for; exit if they do not fit together."""
    if bool(given.tls_cert_file) != bool(given.tls_private_key_file):
        fail("--tls-cert-file and --tls-private-key-file must be used together", USAGE)
    oldest = given.tls_min_version
    if oldest and oldest not in _VERSIONS:
        fail(f"--tls-min-version {oldest}: must be one of {', '.join(_VERSIONS)}", USAGE)
    paths = ",".join(given.authorization_always_allow_paths or []).split(",")
    return ServingFlags(
        given.bind_address,
        given.secure_port,
        given.cert_dir,
        (
            file_or_fail("--tls-cert-file", given.tls_cert_file),
            file_or_fail("--tls-private-key-file", given.tls_private_key_file),
        ),
        _VERSIONS.get(oldest),
        file_or_fail("--client-ca-file", given.client_ca_file),
        tuple(filter(None, (path.strip() for path in paths))),
    )
