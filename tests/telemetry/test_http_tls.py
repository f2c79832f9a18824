"""The health server with TLS: probes for everyone, the rest for those with a certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from podsched.lib.certificate_error import CertificateError
from podsched.lib.tls_contexts import ConnectingContext, TlsFiles
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.http import Access, Pages, serve_health
from podsched.telemetry.http_server import HttpServer
from podsched.telemetry.instruments import MetricRegistry
from support.certificates import Certificates, make_certificates

pytestmark = pytest.mark.integration


def both(files: Certificates) -> TlsFiles:
    return TlsFiles(str(files.ca), str(files.cert), str(files.key))


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


@pytest.fixture
async def server(files: Certificates) -> AsyncIterator[HttpServer]:
    running = await serve_health(
        HealthChecks(),
        MetricRegistry(),
        pages=Pages(config=lambda: {"a": 1}),
        access=Access(both(files), open_paths=("/metrics/slis", "/flag*")),
    )
    yield running
    await running.stop()


async def status(server: HttpServer, path: str, context: ssl.SSLContext) -> int:
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(server.url + path) as response,
    ):
        return response.status


async def test_only_probes_answer_those_without_a_certificate(
    server: HttpServer, files: Certificates
) -> None:
    assert server.url.startswith("https://")
    stranger = ssl.create_default_context(cafile=files.ca)
    for path in ("/readyz", "/healthz", "/livez/ping", "/metrics/slis", "/flagz"):
        assert await status(server, path, stranger) == 200
    for path in ("/metrics", "/configz", "/none", "/"):
        assert await status(server, path, stranger) == 401
    known = ConnectingContext(both(files), print).latest()
    assert await status(server, "/metrics", known) == 200
    assert await status(server, "/configz", known) == 200


@pytest.mark.parametrize("target", ["OPTIONS *", "CONNECT a:1", "GET http://a"])
async def test_a_request_without_a_path_needs_a_certificate_too(
    server: HttpServer, files: Certificates, target: str
) -> None:
    stranger = ssl.create_default_context(cafile=files.ca)
    reader, writer = await asyncio.open_connection(server.host, server.port, ssl=stranger)
    writer.write(f"{target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_plain_text_gets_no_answer(server: HttpServer) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(server.url.replace("https", "http") + "/readyz")


async def test_a_certificate_of_a_strange_authority_is_refused(
    server: HttpServer, files: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = make_certificates(tmp_path / "other")
    mixed = TlsFiles(str(files.ca), str(other.cert), str(other.key))
    with pytest.raises(aiohttp.ClientError):
        await status(server, "/readyz", ConnectingContext(mixed, print).latest())


async def test_a_new_certificate_and_authority_are_used_from_the_next_connection_on(
    server: HttpServer, files: Certificates, tmp_path: Path
) -> None:
    before = ConnectingContext(both(files), print).latest()
    assert await status(server, "/metrics", before) == 200
    make_certificates(tmp_path)
    with pytest.raises(aiohttp.ClientError):
        await status(server, "/metrics", before)
    assert await status(server, "/metrics", ConnectingContext(both(files), print).latest()) == 200


async def test_broken_files_keep_what_is_in_use(server: HttpServer, files: Certificates) -> None:
    before = ConnectingContext(both(files), print).latest()
    files.key.write_text("none")
    assert await status(server, "/metrics", before) == 200


async def test_files_that_cannot_be_used_are_named(files: Certificates) -> None:
    files.key.write_text("none")
    with pytest.raises(CertificateError, match=r"tls\.key: no private key"):
        await serve_health(HealthChecks(), MetricRegistry(), access=Access(both(files)))


async def test_a_client_that_does_not_shake_hands_keeps_no_other_client_waiting(
    server: HttpServer, files: Certificates
) -> None:
    _, writer = await asyncio.open_connection(server.host, server.port)
    known = ConnectingContext(both(files), print).latest()
    assert await status(server, "/readyz", known) == 200
    writer.close()


async def test_without_a_way_to_authenticate_only_open_paths_answer(files: Certificates) -> None:
    tls = TlsFiles("", str(files.cert), str(files.key), oldest=ssl.TLSVersion.TLSv1_3)
    running = await serve_health(
        HealthChecks(),
        MetricRegistry(),
        access=Access(tls, demanding=True, open_paths=("/metrics",)),
    )
    try:
        known = ConnectingContext(both(files), print).latest()
        assert await status(running, "/metrics", known) == 200
        assert await status(running, "/statusz", known) == 401
        known.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientConnectorError):
            await status(running, "/metrics", known)
    finally:
        await running.stop()
