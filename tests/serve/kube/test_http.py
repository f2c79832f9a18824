"""Requests to an API server over real connections: TLS, tokens, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podsched.lib.network import free_port
from podsched.serve.client.call_metrics import ClientTelemetry
from podsched.serve.client.errors import (
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ServerBug,
    Unauthorized,
    Unavailable,
    Unreadable,
)
from podsched.serve.kube.access import ClusterAccess, from_kubeconfig
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.informer import KubeInformer
from podsched.telemetry.instruments import MetricRegistry
from support.certificates import Certificates, make_certificates
from support.eventually import PATIENCE, eventually
from support.kube_server import KubeStore, serve

pytestmark = pytest.mark.integration

POD = "/api/v1/namespaces/default/pods/web"


@pytest.fixture
def store() -> KubeStore:
    store = KubeStore()
    store.pod("web")
    return store


@pytest.fixture
async def clients() -> AsyncIterator[list[KubeHttp]]:
    """Clients that a test has made, closed in the end."""
    made: list[KubeHttp] = []
    yield made
    for client in made:
        await client.close()


def kubeconfig(folder: Path, server: str, files: Certificates, user: dict[str, Any]) -> Path:
    cluster = {"server": server, "certificate-authority": str(files.ca)}
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    return path


async def test_requests_are_counted_by_the_servers_host_without_its_path(
    store: KubeStore, clients: list[KubeHttp]
) -> None:
    registry = MetricRegistry()
    async with serve(store) as url:
        access = ClusterAccess(f"{url}/clusters/c1")
        clients.append(KubeHttp(access, observer=ClientTelemetry(registry)))
        with pytest.raises(NotFound):
            await clients[0].request("GET", POD)
    host = url.removeprefix("http://")
    counted = {one.name: one for one in registry.instruments()}["rest_client_requests_total"]
    assert [labels for labels, _ in counted.cells()] == [("404", "GET", host)]


async def test_tls_token_and_client_certificate_of_a_kubeconfig(
    store: KubeStore, clients: list[KubeHttp], tmp_path: Path
) -> None:
    files = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(files.ca))
    tls.load_cert_chain(files.cert, files.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    pair = {"client-certificate": str(files.cert), "client-key": str(files.key)}
    async with serve(store, tls=tls, token="right") as url:
        for token in ("right", "wrong"):
            user = {**pair, "token": token}
            client = KubeHttp(from_kubeconfig(kubeconfig(tmp_path, url, files, user)))
            clients.append(client)
            if token == "right":
                assert (await client.request("GET", POD))["metadata"]["name"] == "web"
            else:
                with pytest.raises(Unauthorized, match="Unauthorized"):
                    await client.request("GET", POD)


async def test_a_server_of_another_authority_is_not_trusted(
    store: KubeStore, clients: list[KubeHttp], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    files, other = make_certificates(tmp_path), make_certificates(tmp_path / "other")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.cert, files.key)
    async with serve(store, tls=tls) as url:
        access = from_kubeconfig(kubeconfig(tmp_path, url, other, {}))
        clients.append(client := KubeHttp(access, wait_for_server=False))
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await client.request("GET", POD)


async def test_refusals_are_errors_of_their_kind(store: KubeStore, clients: list[KubeHttp]) -> None:
    async with serve(store) as url:
        clients.append(client := KubeHttp(ClusterAccess(url)))
        with pytest.raises(NotFound, match='pods "gone" not found'):
            await client.request("GET", POD.replace("web", "gone"))


async def test_a_write_to_a_server_that_is_slow_has_an_unknown_outcome(
    clients: list[KubeHttp],
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients.append(client := KubeHttp(ClusterAccess(f"http://127.0.0.1:{port}"), timeout=3.0))
    async with server:
        with pytest.raises(OutcomeUnknown, match="did not answer in time"):
            await client.request("POST", f"{POD}/binding", body={})
        await client.close()


async def test_a_redirection_is_a_refusal(clients: list[KubeHttp]) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 2\r\n\r\n{}")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients.append(client := KubeHttp(ClusterAccess(f"http://127.0.0.1:{port}")))
    async with server:
        with pytest.raises(ServerBug) as of_a_request:
            await client.request("POST", f"{POD}/binding", body={})
        with pytest.raises(ServerBug) as of_a_watch:
            await anext(client.lines("/api/v1/pods", {"watch": "1"}))
        assert of_a_request.value.http_status == of_a_watch.value.http_status == 302
        await client.close()


async def test_of_the_refusal_of_a_watch_only_the_beginning_is_read(
    clients: list[KubeHttp],
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9000000000\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(40):
                writer.write(b"no " * 20_000)
                await writer.drain()
            writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients.append(client := KubeHttp(ClusterAccess(f"http://127.0.0.1:{port}")))
    async with server:
        with pytest.raises(Forbidden, match="no no no"):
            await anext(client.lines("/api/v1/pods", {"watch": "1"}))
        await client.close()


async def test_a_line_of_a_watch_that_is_too_long_is_an_error_before_it_is_whole(
    clients: list[KubeHttp], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podsched.serve.kube.http._MAX_LINE", 100)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"x" * 101)
        with contextlib.suppress(OSError):
            await reader.read()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients.append(client := KubeHttp(ClusterAccess(f"http://127.0.0.1:{port}")))
    async with server:
        with pytest.raises(Unreadable, match="a line of the watch has more than 100 bytes"):
            await anext(client.lines("/api/v1/pods", {"watch": "1"}))
        await client.close()


async def test_a_watch_on_which_nothing_happens_for_long_ends_without_an_error(
    clients: list[KubeHttp], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podsched.serve.kube.http._WATCH_SILENCE", 0.05)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\none\n")
        with contextlib.suppress(OSError):
            await reader.read()
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients.append(client := KubeHttp(ClusterAccess(f"http://127.0.0.1:{port}")))
    async with server:
        watch = client.lines("/api/v1/pods", {"watch": "1"})
        assert [lines async for lines in watch] == [[b"one"]]
        await client.close()


async def test_requests_and_watches_outlive_a_restart_of_the_server(
    store: KubeStore, clients: list[KubeHttp]
) -> None:
    """The history is gone as well, as after a restart of a kube-apiserver."""
    port = free_port()
    clients.append(client := KubeHttp(ClusterAccess(f"http://127.0.0.1:{port}")))
    informer = KubeInformer(client, ["Pod"])
    seen: list[str] = []
    task = asyncio.create_task(
        informer.run(lambda batch: seen.extend(f"{e.type.name} {e.key}" for e in batch.events))
    )
    async with serve(store, port):
        async with asyncio.timeout(PATIENCE):
            await informer.synced.wait()
    asked = asyncio.create_task(client.request("GET", POD))
    store.pod("second")
    store.remove("pods", "default/web")
    store.forget()
    store.pod("web")
    async with serve(store, port):
        assert (await asked)["metadata"]["name"] == "web"
        wanted = ["ADDED default/second", "ADDED default/web", "DELETED default/web"]
        await eventually("the differences are seen", lambda: sorted(seen[1:]), wanted)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
