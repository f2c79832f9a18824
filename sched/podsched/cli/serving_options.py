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
from podsched.config.flags import flag
from podsched.lib.certificate_error import CertificateError
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import TlsFiles

_PANEL = "Secure serving"
_PORT = 10259
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class ServingFlags:
    """What is served over HTTPS. Exits if the options do not fit together."""

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

    def __post_init__(self) -> None:
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            fail("--tls-cert-file and --tls-private-key-file must be used together", USAGE)
        if self.tls_min_version and self.tls_min_version not in _VERSIONS:
            versions = ", ".join(_VERSIONS)
            fail(f"--tls-min-version {self.tls_min_version}: must be one of {versions}", USAGE)
        for name in ("tls_cert_file", "tls_private_key_file", "client_ca_file"):
            file_or_fail(f"--{name.replace('_', '-')}", getattr(self, name))

    @property
    def open_paths(self) -> tuple[str, ...]:
        """Paths that answer without a certificate."""
        paths = ",".join(self.authorization_always_allow_paths or []).split(",")
        return tuple(filter(None, (path.strip() for path in paths)))

    @property
    def https(self) -> bool:
        """Whether to serve as kube-scheduler does; --secure-port=0 turns it off, as there."""
        given = (
            self.bind_address,
            self.cert_dir,
            self.tls_cert_file,
            self.tls_min_version,
            self.client_ca_file,
        )
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
        oldest = _VERSIONS.get(self.tls_min_version, ssl.TLSVersion.TLSv1_2)
        certificate, key = self.tls_cert_file, self.tls_private_key_file
        if certificate is None or key is None:
            certificate, key = self._made()
        clients = str(self.client_ca_file or authorities)
        return TlsFiles(clients, str(certificate), str(key), oldest=oldest)

    def _made(self) -> tuple[Path, Path]:
        try:
            directory = self.cert_dir or _for_this_run()
            return serving_certificate(directory, self.bind_address or "0.0.0.0")
        except CertificateError as exc:
            fail(f"--cert-dir: {exc}", FAILED)
        except OSError as exc:
            fail(f"--cert-dir {self.cert_dir or ''}: {exc.strerror or exc}", FAILED)


def _for_this_run() -> Path:
    directory = RunDirectory("certificates")
    atexit.register(directory.remove)
    return directory.path
