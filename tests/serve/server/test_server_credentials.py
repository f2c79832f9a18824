"""Certificates of the API server follow their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from podsched.lib.certificate_error import CertificateError
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import Unavailable
from podsched.serve.server.server import ApiServer, ServerCertificates
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from support.certificates import Certificates, make_certificates


def settings_of(files: Certificates, *, demanding: bool = True) -> ServerSettings:
    ca = str(files.ca) if demanding else ""
    return ServerSettings(tls_cert=str(files.cert), tls_key=str(files.key), tls_client_ca=ca)


def options_of(files: Certificates) -> ClientOptions:
    return ClientOptions(tls_ca=str(files.ca), tls_cert=str(files.cert), tls_key=str(files.key))


def test_files_that_stay_as_they_are_are_not_read_again(tmp_path: Path) -> None:
    certificates = ServerCertificates(settings_of(make_certificates(tmp_path)))
    assert certificates.changed() is None


def test_new_files_are_used_once_they_fit_together(tmp_path: Path) -> None:
    old = make_certificates(tmp_path)
    certificates = ServerCertificates(settings_of(old))
    (other := tmp_path / "other").mkdir()
    new = make_certificates(other)
    new.ca.replace(old.ca)
    assert certificates.changed() is not None, "of the clients' authority alone"
    new.cert.replace(old.cert)
    assert certificates.changed() is None, "the key is not the certificate's"
    assert certificates.changed() is None
    new.key.replace(old.key)
    assert certificates.changed() is not None
    old.cert.unlink()
    assert certificates.changed() is None, "the file is missing"


@pytest.mark.parametrize(
    ("break_", "says"),
    [
        (lambda files: files.key.write_bytes(files.cert.read_bytes()), "tls.key: no private key"),
        (lambda files: files.cert.write_bytes(files.ca.read_bytes()), "tls.key: not the key of"),
        (lambda files: files.ca.write_text("none"), "ca.crt: no certificate"),
    ],
)
def test_files_that_cannot_be_used_at_the_start_are_named(
    tmp_path: Path, break_: Callable[[Certificates], object], says: str
) -> None:
    files = make_certificates(tmp_path)
    break_(files)
    with pytest.raises(CertificateError, match=says):
        ServerCertificates(settings_of(files))


@pytest.mark.integration
async def test_connections_after_a_renewal_need_the_new_certificates(tmp_path: Path) -> None:
    """A server and a client that reads the same files go on; one with old files is refused."""
    files = make_certificates(tmp_path)
    (kept := tmp_path / "kept").mkdir()
    before = Certificates(kept / "ca.crt", kept / "tls.crt", kept / "tls.key")
    for name in ("ca", "cert", "key"):
        getattr(before, name).write_bytes(getattr(files, name).read_bytes())
    store = MemoryStore()
    server = ApiServer(settings_of(files), store)
    await server.start()
    try:
        async with ApiClient(server.address, options_of(files)) as client:
            await client.list("Node")
            make_certificates(tmp_path)
            await client.list("Node")  # on the connection that is open
            async with ApiClient(server.address, options_of(files)) as newcomer:
                await newcomer.list("Node")
            async with ApiClient(server.address, options_of(before)) as stale:
                with pytest.raises(Unavailable):
                    await stale.list("Node")
    finally:
        await server.stop(0.5)
        await store.close()
