"""Reads how to reach a kube-apiserver from a kubeconfig file or a pod's service account.

A kubeconfig is read as in kubectl: the current context names a cluster and a user. Tokens and
certificates in files are reloaded when they change: a service account's token is valid for an hour.
Tokens of ``exec`` plugins are renewed when they expire or are refused. Unsupported fields are
refused with their path.

Rejected: kubernetes_asyncio (36.1). It reads a kubeconfig's ``tokenFile`` once and keeps one TLS
context, so changed tokens and certificates are not used; it has 48 MB and takes 0.5 s to import.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from podsched.config.errors import ConfigError, FieldError, invalid, required
from podsched.lib.certificate_error import CertificateError
from podsched.lib.changing_file import ChangingFile
from podsched.lib.files import read_file
from podsched.lib.network import http_url
from podsched.serve.kube.tokens import ExecToken, FileToken, FixedToken, TokenSource
from podsched.telemetry.logs import get_logger, keeps_certificates

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Max bytes of a kubeconfig, and of each file that it names.
_MAX_BYTES = 4 << 20
#: Authentication methods that Kubernetes has removed or that are not supported here.
_REFUSED_OF_USER = {
    "auth-provider": "auth providers were removed from Kubernetes; use an exec plugin or a token",
    "username": "Kubernetes has no passwords any more; use a certificate or a token",
    "as": "impersonation is not supported",
}
#: The extension of a cluster that is passed to exec plugins.
_PLUGIN_EXTENSION = "client.authentication.k8s.io/exec"
_log = get_logger("kube")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """An API server's URL, and how to authenticate there.

    server: URL, which may have a path, without a slash at its end. tls: None for http.
    namespace: of the context.
    """

    server: str
    tls: ClusterTls | None = None
    token: TokenSource = field(default_factory=FixedToken)
    server_hostname: str = ""
    namespace: str = "default"


def kubeconfig(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> str:
    """Return the text of a kubeconfig with one context."""
    name = "podsched"
    context = {"name": name, "context": {"cluster": name, "user": name}}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [context],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def in_cluster() -> ClusterAccess:
    """Return the access with the service account of this process's pod. Raises ConfigError."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise _config_error(
            "KUBERNETES_SERVICE_HOST", "must be set: this process runs in no pod of a cluster"
        )
    host = f"[{host}]" if ":" in host else host
    try:
        token = FileToken(_SERVICE_ACCOUNT / "token")
        authority = _SERVICE_ACCOUNT / "ca.crt"
        tls = ClusterTls(lambda: _trusting_only(authority.read_bytes()), [authority])
        namespace = (_SERVICE_ACCOUNT / "namespace").read_text().strip()
    except (CertificateError, OSError, ValueError) as error:  # SSLError is an OSError
        raise _config_error(str(_SERVICE_ACCOUNT), str(error)) from error
    return ClusterAccess(f"https://{host}:{port}", tls, token, namespace=namespace)


def from_kubeconfig(path: Path, *, master: str = "", context: str = "") -> ClusterAccess:
    """Return the access that a kubeconfig describes.

    ``master`` replaces the cluster's server, ``context`` the current context.
    Raises ConfigError, which names the field.
    """
    try:
        document = yaml.safe_load(read_file(path, _MAX_BYTES))
    except (OSError, yaml.YAMLError, ValueError) as error:  # ValueError: of a date, or not UTF-8
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ConfigError([FieldError("", None, reason)], str(path)) from error
    if not isinstance(document, Mapping):
        raise ConfigError(
            [FieldError("", None, "is not a kubeconfig: expected an object")], str(path)
        )
    try:
        return _Kubeconfig(document, path.parent).access(master, context)
    except ConfigError as error:
        raise ConfigError(error.errors, str(path)) from error


def plain(master: str) -> ClusterAccess:
    """Return the access to a server without authentication, as ``--master`` alone means."""
    server = _server("--master", master)
    is_encrypted = server.startswith("https:")
    return ClusterAccess(server, ClusterTls(ssl.create_default_context) if is_encrypted else None)


class _Kubeconfig:
    """A kubeconfig file; its relative paths start from its folder."""

    def __init__(self, document: Mapping[str, Any], folder: Path) -> None:
        self._document = document
        self._folder = folder

    def access(self, master: str, context: str) -> ClusterAccess:
        """Return the access of a context; see ``from_kubeconfig``. Raises ConfigError."""
        name = context or self._document.get("current-context") or ""
        if not name:
            raise ConfigError([required("current-context")])
        chosen = self._named("contexts", "context", name)
        cluster = self._named("clusters", "cluster", chosen.get("cluster", ""))
        user = self._named("users", "user", chosen["user"]) if chosen.get("user") else {}
        if cluster.get("proxy-url"):
            raise ConfigError([invalid("cluster.proxy-url", cluster["proxy-url"], "unsupported")])
        insecure = cluster.get("insecure-skip-tls-verify")
        if not isinstance(insecure, bool | None):  # the text "false" must not mean true
            path = "cluster.insecure-skip-tls-verify"
            raise ConfigError([invalid(path, insecure, "must be true or false")])
        for key, reason in _REFUSED_OF_USER.items():
            if user.get(key):
                raise _config_error(f"user.{key}", reason)
        server = _server("cluster.server", master or str(cluster.get("server", "")))
        namespace = str(chosen.get("namespace") or "default")
        if not server.startswith("https:"):
            # As in client-go, no credential is sent in clear.
            return ClusterAccess(server, namespace=namespace)
        return ClusterAccess(
            server,
            self._tls(cluster, user),
            self._token(user, {**cluster, "server": server}),
            str(cluster.get("tls-server-name", "")),
            namespace,
        )

    def _named(self, plural: str, singular: str, name: str) -> Mapping[str, Any]:
        entries = self._document.get(plural)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and entry.get("name") == name:
                found = entry.get(singular)
                return found if isinstance(found, Mapping) else {}
        raise ConfigError([invalid(plural, name, "there is none of this name")])

    def _tls(self, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ClusterTls:
        named = [
            owner[name]
            for owner, name in (
                (cluster, "certificate-authority"),
                (user, "client-certificate"),
                (user, "client-key"),
            )
            if owner.get(name) and not owner.get(f"{name}-data")
        ]
        files = [self._folder / str(name) for name in named]
        return ClusterTls(lambda: self._context(cluster, user), files)

    def _context(self, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
        """Return the TLS context for a cluster and user. Raises ConfigError."""
        authority = self._pem(cluster, "cluster", "certificate-authority")
        certificate = self._pem(user, "user", "client-certificate")
        key = self._pem(user, "user", "client-key")
        try:
            if authority is None:
                context = ssl.create_default_context()
            else:
                context = _trusting_only(authority)
            if cluster.get("insecure-skip-tls-verify"):
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate is not None and key is not None:
                _load_pair(context, certificate, key)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise _config_error("certificates", f"cannot be used: {error}") from error
        if (certificate is None) != (key is None):
            raise ConfigError(
                [required("user.client-key" if key is None else "user.client-certificate")]
            )
        return context

    def _pem(self, owner: Mapping[str, Any], path: str, name: str) -> bytes | None:
        """Return the content of NAME-data, or of the file NAME; None without either."""
        if data := owner.get(f"{name}-data"):
            # As for clients in Go, the text may have several lines.
            text = "".join(str(data).splitlines())
            try:
                return base64.b64decode(text, validate=True)
            except ValueError as error:  # such as binascii.Error
                raise _config_error(f"{path}.{name}-data", f"is not base64: {error}") from error
        if file := owner.get(name):
            try:
                return read_file(self._folder / str(file), _MAX_BYTES)
            except OSError as error:
                raise _config_error(f"{path}.{name}", f"{file}: {error.strerror}") from error
        return None

    def _token(self, user: Mapping[str, Any], cluster: Mapping[str, Any]) -> TokenSource:
        if user.get("exec"):
            return ExecToken.of(user["exec"], self._folder, self._for_plugin(cluster))
        if file := user.get("tokenFile"):
            try:
                return FileToken(self._folder / str(file))
            except CertificateError as error:
                raise _config_error("user.tokenFile", str(error)) from error
        token = str(user.get("token") or "")
        if len(token.splitlines()) > 1:
            raise _config_error("user.token", "contains a line break")
        return FixedToken(token.strip())

    def _for_plugin(self, cluster: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an exec plugin may ask to know about the cluster."""
        names = ("server", "tls-server-name", "insecure-skip-tls-verify", "disable-compression")
        found = {name: cluster[name] for name in names if cluster.get(name)}
        if authority := self._pem(cluster, "cluster", "certificate-authority"):
            found["certificate-authority-data"] = base64.b64encode(authority).decode()
        extensions = cluster.get("extensions")
        for extension in extensions if isinstance(extensions, list) else ():
            if isinstance(extension, Mapping) and extension.get("name") == _PLUGIN_EXTENSION:
                found["config"] = extension.get("extension")
        return found


def _server(path: str, url: str) -> str:
    parts = http_url(url if "://" in url else f"https://{url}")
    if parts is None:
        raise ConfigError([invalid(path, url, "must be a URL such as https://10.0.0.1:6443")])
    return parts.geturl().rstrip("/")


def _trusting_only(authority: bytes) -> ssl.SSLContext:
    """Return a TLS context that trusts one CA and not the machine's. Raises OSError, ValueError."""
    # Not ``create_default_context``: from Python 3.13 on it refuses certificates without a key
    # identifier, which many clusters have, and clients in Go accept.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As for clients in Go, an intermediate authority may be the one that is trusted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Only comments have other characters, and they would raise a TypeError.
    context.load_verify_locations(cadata=authority.decode("ascii", "ignore"))
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load certificate and key through a file, as the ssl module accepts nothing else."""
    with tempfile.NamedTemporaryFile() as file:  # mode 0600, deleted at the end
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _config_error(path: str, reason: str) -> ConfigError:
    return ConfigError([FieldError("", None, f"{path}: {reason}")])


class ClusterTls:
    """A TLS context that ``make`` creates from files, again whenever these change.

    The first call's exceptions are raised. The pool keeps connections by context: new ones use the
    new certificate, and idle ones with the old certificate are closed after a while.
    """

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: Iterable[Path] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: monotonic seconds."""
        self._make = make
        self._context = make()
        self._files = [ChangingFile(str(path), clock) for path in files]

    def latest(self) -> ssl.SSLContext:
        """Return the context for the next request.

        Files are replaced one by one, so the previous context is kept while they are inconsistent.
        """
        changed = [file.changed() for file in self._files]  # each is asked
        if any(changed):
            try:
                self._context = self._make()
            except (OSError, ValueError) as error:  # ConfigError is a ValueError
                keeps_certificates(_log)(str(error))
        return self._context
