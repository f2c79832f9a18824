"""Certificates of a kubeconfig that are replaced while they are in use."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from podsched.config.errors import ConfigError, FieldError
from podsched.serve.kube.access import ClusterTls, from_kubeconfig
from support.certificates import make_certificates


class Files:
    """Two files that belong together when they hold the same."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.paths = [folder / "cert", folder / "key"]
        self.write("one", *self.paths)

    def write(self, text: str, *paths: Path) -> None:
        for path in paths:
            path.write_text(text)
        self.now += 2.0

    def tls(self) -> ClusterTls:
        return ClusterTls(self._make, self.paths, lambda: self.now)

    def _make(self) -> ssl.SSLContext:
        if len({path.read_text() for path in self.paths}) > 1:
            raise ConfigError([FieldError("", None, "the key is another certificate's")])
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def test_files_that_change_make_a_new_context(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = files.tls()
    first = tls.latest()
    files.now += 2.0
    assert tls.latest() is first
    files.write("three", *files.paths)
    assert tls.latest() is not first


def test_while_they_do_not_belong_together_the_old_ones_stay_in_use(tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = files.tls()
    first = tls.latest()
    files.write("three", files.paths[0])
    assert tls.latest() is first
    files.write("three", files.paths[1])
    assert tls.latest() is not first


def test_the_files_of_a_kubeconfig_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podsched.lib.changing_file._CHECK_SECONDS", 0.0)
    files = make_certificates(tmp_path)
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://a", "certificate-authority": "ca.crt"}}
        ],
        "users": [
            {"name": "u", "user": {"client-certificate": "tls.crt", "client-key": "tls.key"}}
        ],
    }
    (tmp_path / "config").write_text(json.dumps(document))
    tls = from_kubeconfig(tmp_path / "config").tls
    assert tls is not None
    first = tls.latest()
    assert make_certificates(tmp_path) == files
    assert tls.latest() is not first
