"""kube-scheduler's options for serving its endpoints over HTTPS.

One of them is enough: the endpoints are then served at ``--bind-address`` and ``--secure-port``, as
kube-scheduler serves them, in place of ``--health-listen``.
"""

from __future__ import annotations

import atexit
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.serving_certificate import serving_certificate
from podsched.cli.errors import FAILED, USAGE, fail, file_or_fail
from podsched.lib.certificate_error import CertificateError
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import TlsFiles

_PANEL = "Secure serving"
_PORT = 10259
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

BindAddress = Annotated[
    str,
    typer.Option(
        rich_help_panel=_PANEL,
        metavar="ADDRESS",
        help="Address for HTTPS, in place of --health-listen. Default, if one of these options is "
        "given: 0.0.0.0, all addresses.",
    ),
]
SecurePort = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=_PANEL,
        min=0,
        max=65535,
        metavar="PORT",
        help=f"Port for HTTPS; 0: no HTTPS. Default: {_PORT}.",
        show_default=False,
    ),
]
CertDir = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_PANEL,
        metavar="DIRECTORY",
        help="Directory of kube-scheduler.crt and kube-scheduler.key, made if missing. Without it "
        "and --tls-cert-file a certificate is made for this run.",
    ),
]
TlsCertFile = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_PANEL, metavar="FILE", help="Certificate for HTTPS, and its chain."
    ),
]
TlsPrivateKeyFile = Annotated[
    Path | None,
    typer.Option(rich_help_panel=_PANEL, metavar="FILE", help="Private key of --tls-cert-file."),
]
TlsMinVersion = Annotated[
    str,
    typer.Option(
        rich_help_panel=_PANEL,
        metavar="VERSION",
        help="Oldest version of TLS for HTTPS: VersionTLS12 or VersionTLS13.",
        show_default=False,
    ),
]
ClientCaFile = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_PANEL,
        metavar="FILE",
        help="Authorities of the clients' certificates. Without it or --tls-ca, only the paths "
        "that are always allowed answer.",
    ),
]
AlwaysAllowPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--authorization-always-allow-paths",
        rich_help_panel=_PANEL,
        metavar="PATH,...",
        help="Paths that answer clients without a certificate; /healthz, /livez and /readyz always "
        "do.",
    ),
]


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


def serving_flags(
    bind_address: BindAddress = "",
    secure_port: SecurePort = None,
    cert_dir: CertDir = None,
    tls_cert_file: TlsCertFile = None,
    tls_private_key_file: TlsPrivateKeyFile = None,
    tls_min_version: TlsMinVersion = "",
    client_ca_file: ClientCaFile = None,
    authorization_always_allow_paths: AlwaysAllowPaths = None,
) -> ServingFlags:
    """Return what the options ask for; exit if they do not fit together."""
    if bool(tls_cert_file) != bool(tls_private_key_file):
        fail("--tls-cert-file and --tls-private-key-file must be used together", USAGE)
    if tls_min_version and tls_min_version not in _VERSIONS:
        fail(f"--tls-min-version {tls_min_version}: must be one of {', '.join(_VERSIONS)}", USAGE)
    paths = ",".join(authorization_always_allow_paths or []).split(",")
    return ServingFlags(
        bind_address,
        secure_port,
        cert_dir,
        (
            file_or_fail("--tls-cert-file", tls_cert_file),
            file_or_fail("--tls-private-key-file", tls_private_key_file),
        ),
        _VERSIONS.get(tls_min_version),
        file_or_fail("--client-ca-file", client_ca_file),
        tuple(filter(None, (path.strip() for path in paths))),
    )
