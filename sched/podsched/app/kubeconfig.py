"""A kubeconfig: where kubectl finds a cluster, and as whom it goes there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from podsched.lib.tls_contexts import TlsFiles

_NAME = "podsched"


def kubeconfig(address: str, tls: TlsFiles | None) -> dict[str, Any]:
    """Return a kubeconfig. address: host:port; tls: the files of its user, None without TLS."""
    cluster: dict[str, Any] = {"server": f"{'https' if tls else 'http'}://{address}"}
    user: dict[str, Any] = {}
    if tls is not None:
        cluster["certificate-authority"] = tls.authorities
        user = {"client-certificate": tls.certificate, "client-key": tls.key}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: Path, address: str, tls: TlsFiles | None) -> None:
    """Write a kubeconfig that only its owner can read. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        yaml.safe_dump(kubeconfig(address, tls), file, sort_keys=False)
