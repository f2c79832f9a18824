"""Connections to kubelets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podsched.lib.certificate_error import CertificateError
from podsched.lib.tls_contexts import ServingContext, TlsFiles
from podsched.serve.server.kubelets.addresses import Endpoint
from podsched.serve.server.kubelets.client import KubeletClient, KubeletError
from podsched.serve.server.kubelets.settings import KubeletSettings
from support.certificates import Certificates, make_certificates

pytestmark = pytest.mark.integration


@pytest.fixture
def kubelets_files(tmp_path: Path) -> Certificates:
    (tmp_path / "kubelet").mkdir()
    return make_certificates(tmp_path / "kubelet")


@pytest.fixture
async def kubelet(kubelets_files: Certificates) -> AsyncIterator[Endpoint]:
    """What answers only those with a certificate of its own authority."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    names = TlsFiles(*map(str, (kubelets_files.ca, kubelets_files.cert, kubelets_files.key)))
    context = ServingContext(names, print, demand=True).context
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        yield Endpoint("worker-1", "127.0.0.1", "127.0.0.1", port)


@pytest.mark.parametrize("verifies", [True, False])
async def test_a_new_certificate_is_shown_from_the_next_connection_on(
    kubelet: Endpoint, kubelets_files: Certificates, tmp_path: Path, verifies: bool
) -> None:
    """Without authorities for the kubelets, too."""
    files = make_certificates(tmp_path)
    settings = KubeletSettings(
        client_certificate=str(files.cert),
        client_key=str(files.key),
        certificate_authority=str(kubelets_files.ca) if verifies else "",
    )
    client = KubeletClient(settings, lambda ip, port: "")
    try:
        with pytest.raises(KubeletError):
            await client.request(kubelet, "GET", "/")
        files.cert.write_bytes(kubelets_files.cert.read_bytes())
        files.key.write_bytes(kubelets_files.key.read_bytes())
        response = await client.request(kubelet, "GET", "/")
        response.close()
        assert response.status == 200
    finally:
        await client.close()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    files.key.write_text("none")
    settings = KubeletSettings(client_certificate=str(files.cert), client_key=str(files.key))
    with pytest.raises(CertificateError, match=r"tls\.key: no private key"):
        KubeletClient(settings, lambda ip, port: "")
