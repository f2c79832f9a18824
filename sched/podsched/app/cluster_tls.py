"""Make the certificates of a local cluster, and the options that pass them to its processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcdOptions


class ClusterTls:
    """Certificates of all roles in a directory; without a directory there is no TLS."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def make_missing(self, hosts: Sequence[str]) -> None:
        """Make missing certificates. Raises CertificateError, OSError."""
        if self._directory is None:
            return
        # Imported only here: the library behind it takes 70 ms to load.
        from podsched.app.role_certificates import Wanted, make_missing

        # The cluster's one agent plays all nodes, including those of manifests.
        make_missing(self._directory, Wanted(hosts, node="*"))

    def files_of(self, role: str) -> TlsFiles | None:
        """Return a role's certificate, its key and the authority; None without TLS."""
        if self._directory is None:
            return None
        names = ("ca.crt", f"{role}.crt", f"{role}.key")
        return TlsFiles(*(str(self._directory / name) for name in names))

    def client_arguments(self, role: str) -> list[str]:
        """Return the arguments of a client of the API servers."""
        files = self.files_of(role)
        return _arguments(files, "--tls-ca", "--tls-cert", "--tls-key")

    def server_arguments(self) -> list[str]:
        """Return the arguments of an API server."""
        arguments = _arguments(
            self.files_of("server"), "--tls-client-ca", "--tls-cert", "--tls-key"
        )
        if self._directory is not None:
            arguments += self._signing_arguments(self._directory)
        if (kubelets := self.files_of("kubelet-client")) is not None:
            arguments.append(f"--kubelet-client-certificate={kubelets.certificate}")
            arguments.append(f"--kubelet-client-key={kubelets.key}")
        return arguments

    def _signing_arguments(self, directory: Path) -> list[str]:
        """Return the arguments for tokens of ServiceAccounts and certificates of kubelets."""
        arguments = [
            f"--service-account-signing-key-file={directory / 'sa.key'}",
            f"--kubelet-certificate-authority={directory / 'kubelet-ca.crt'}",
        ]
        if (directory / "ca.key").exists():  # The user may have moved it to a safe place.
            option = "--cluster-signing"
            arguments += [
                f"{option}-cert-file={directory / 'ca.crt'}",
                f"{option}-key-file={directory / 'ca.key'}",
                f"{option}-kubelet-serving-cert-file={directory / 'kubelet-ca.crt'}",
                f"{option}-kubelet-serving-key-file={directory / 'kubelet-ca.key'}",
            ]
        return arguments

    def etcd_arguments(self) -> list[str]:
        """Return the arguments of a client of the embedded etcd."""
        files = self.files_of("etcd-client")
        return _arguments(files, "--etcd-ca", "--etcd-cert", "--etcd-key")

    def etcd_options(self, endpoints: tuple[str, ...]) -> EtcdOptions:
        """Return the options of a client of the embedded etcd."""
        if (files := self.files_of("etcd-client")) is None:
            return EtcdOptions(endpoints)
        return EtcdOptions(
            endpoints,
            ca=Path(files.authorities),
            cert=Path(files.certificate),
            key=Path(files.key),
        )

    def of_etcd(self, options: EmbeddedEtcdOptions) -> EmbeddedEtcdOptions:
        """Return the options of the embedded etcd with its certificates."""
        if (files := self.files_of("etcd")) is None:
            return options
        return replace(
            options,
            cert=Path(files.certificate),
            key=Path(files.key),
            client_ca=Path(files.authorities),
        )


def _arguments(files: TlsFiles | None, ca: str, certificate: str, key: str) -> list[str]:
    if files is None:
        return []
    return [f"{ca}={files.authorities}", f"{certificate}={files.certificate}", f"{key}={files.key}"]
