"""Connections by TLS, and what becomes of them when certificates are renewed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc.aio import AioRpcError

from podsched.lib.certificate_error import CertificateError
from podsched.lib.network import free_port
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import Channels, ClientOptions
from podsched.serve.client.errors import TooManyRequests, Unavailable
from podsched.serve.server.errors import too_many_requests
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import WatchRequest
from support.api_objects import node
from support.api_servers import start_api_server
from support.certificates import Certificates, make_certificates
from support.eventually import PATIENCE
from support.relay import Relay


@asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[Sequence[ApiServer], Relay]]:
    """Two API servers on one store, and a relay to the first."""
    store = MemoryStore()
    servers = [await start_api_server(ServerSettings(), store) for _ in range(2)]
    relay = Relay(servers[0].port)
    await relay.start()
    try:
        yield servers, relay
    finally:
        relay.heal()
        await relay.stop()
        for server in servers:
            await server.stop(0)
        await store.close()


def options_of(files: Certificates) -> ClientOptions:
    return ClientOptions(tls_ca=str(files.ca), tls_cert=str(files.cert), tls_key=str(files.key))


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    files.key.write_text("no key")
    with pytest.raises(CertificateError, match=r"tls\.key: no private key in PEM format"):
        Channels("a:1", options_of(files))
    files.key.unlink()
    with pytest.raises(CertificateError, match=r"tls\.key: No such file"):
        Channels("a:1", options_of(files))


async def test_a_failure_opens_new_channels_if_the_files_have_changed(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    channels = Channels("a:1", options_of(files))
    first = channels.current()
    channels.leave("a:1")
    assert channels.current() is first
    files.key.write_text("half of a ke")
    channels.leave("a:1")
    assert channels.current() is first, "not with files that cannot be used"
    make_certificates(tmp_path)
    channels.leave("a:1")
    assert channels.current() is not first
    await channels.close()


@pytest.mark.integration
async def test_a_client_connects_again_with_renewed_certificates(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    ca, cert, key = str(files.ca), str(files.cert), str(files.key)
    settings = ServerSettings(port=free_port(), tls_cert=cert, tls_key=key, tls_client_ca=ca)
    store = MemoryStore()
    server = await start_api_server(settings, store)
    try:
        async with ApiClient(server.address, options_of(files)) as client:
            await client.list("Node")
            await server.stop(0)
            make_certificates(tmp_path)
            server = await start_api_server(settings, store)
            await client.list("Node")
    finally:
        await server.stop(0)
        await store.close()


async def test_a_silent_server_is_left_also_on_channels_with_earlier_certificates(
    tmp_path: Path,
) -> None:
    channels = Channels("a:1,b:1", options_of(make_certificates(tmp_path)))
    earlier = channels.current()
    make_certificates(tmp_path)
    channels.leave("b:1")
    later = channels.current()
    assert later is not earlier
    await channels.move("a:1", "b:1")
    for channel in (earlier, later):
        with pytest.raises(AioRpcError), channels.failing(channel):
            raise asyncio.CancelledError
    await channels.close()


@pytest.mark.integration
async def test_a_server_that_takes_seconds_to_answer_is_not_given_up() -> None:
    store = MemoryStore()
    server = await start_api_server(ServerSettings(), store)
    relay = Relay(server.port)
    await relay.start()
    relay.cut()
    asyncio.get_running_loop().call_later(2.0, relay.heal)
    try:
        options = ClientOptions(wait_for_server=False, timeout=PATIENCE)
        async with ApiClient(f"127.0.0.1:{relay.port}", options) as client:
            await client.list("Node")
    finally:
        await relay.stop()
        await server.stop(0)
        await store.close()


@pytest.mark.integration
async def test_calls_and_watches_of_a_silent_server_go_on_at_another_one() -> None:
    async with two_servers() as (servers, relay):
        endpoints = [f"127.0.0.1:{relay.port}", servers[1].address]
        # Nothing else ends calls and watches, and the other server is not silent even on a busy
        # machine.
        long = 10 * PATIENCE
        options = ClientOptions(silence=2.0, timeout=long, watch_silence=long)
        async with ApiClient(endpoints, options) as client:
            watch = client.watch_stream(WatchRequest(kinds=["Node"]))
            await anext(watch)
            relay.cut()
            async with asyncio.timeout(PATIENCE):
                await client.list("Node")
                with pytest.raises(Unavailable, match="the server did not answer"):
                    async for _ in watch:
                        pass
            assert client.channels.endpoint == servers[1].address


@pytest.mark.integration
async def test_a_watch_of_a_silent_server_ends_though_calls_use_another_one() -> None:
    """As after a call that failed at the first server, which answered then."""
    async with two_servers() as (servers, relay):
        endpoints = [f"127.0.0.1:{relay.port}", servers[1].address]
        options = ClientOptions(silence=2.0, watch_silence=10 * PATIENCE)
        async with ApiClient(endpoints, options) as client:
            watch = client.watch_stream(WatchRequest(kinds=["Node"]))
            await anext(watch)
            client.channels.leave(endpoints[0])
            await client.list("Node")
            relay.cut()
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(Unavailable, match="the server did not answer"):
                    async for _ in watch:
                        pass
            assert client.channels.endpoint == servers[1].address
            assert client.channels.in_use == {servers[1].address}


@pytest.mark.integration
async def test_a_client_with_too_many_calls_stays_with_its_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter((0.01, 0.01))

    async def refuse(*_: object, **__: object) -> None:
        raise too_many_requests("this client has too many calls", next(seconds, 2 * PATIENCE))

    async with two_servers() as (servers, _):
        options = ClientOptions(timeout=PATIENCE)
        async with ApiClient([one.address for one in servers], options) as client:
            await client.list("Node")
            monkeypatch.setattr(servers[0].gate, "enter", refuse)
            with pytest.raises(TooManyRequests):
                await client.create(node("n"))
            assert client.channels.endpoint == servers[0].address


@pytest.mark.integration
async def test_a_call_that_its_caller_cancels_is_cancelled_at_a_silent_server_too() -> None:
    channels = Channels("127.0.0.1:1,127.0.0.1:2", ClientOptions())
    channel = channels.current()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            with channels.failing(channel):
                await channels.move("127.0.0.1:1", "127.0.0.1:2")
                await asyncio.sleep(60)
    await channels.close()
