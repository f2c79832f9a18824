"""Connections for small requests, over transports in memory."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from podsched.serve.client.errors import FenceLost, Unavailable
from podsched.serve.kube.access import ClusterAccess
from podsched.serve.kube.connections import (
    Answer,
    BrokenConnectionError,
    Connections,
    encode,
)
from podsched.serve.kube.http import KubeHttp

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"


class Transport(asyncio.Transport):
    """One end of a connection; ``receive`` what the server sends, ``break_`` it."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.is_open = True
        self.receive = protocol.data_received
        self._protocol = protocol
        protocol.connection_made(self)

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def abort(self) -> None:
        self.is_open = False

    def break_(self, error: Exception | None = None) -> None:
        self.is_open = False
        self._protocol.connection_lost(error)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Transport]:
    """The connections that were opened, in order."""
    opened: list[Transport] = []

    async def connect(
        _: object, factory: Callable[[], asyncio.Protocol], *__: object, **___: object
    ) -> tuple[Transport, asyncio.Protocol]:
        protocol = factory()
        opened.append(Transport(protocol))
        return opened[-1], protocol

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", connect)
    return opened


@pytest.fixture
def connections() -> Connections:
    return Connections("server", 443, "", 5.0)


async def begin(
    connections: Connections, tls: ssl.SSLContext | None = None
) -> asyncio.Task[Answer]:
    task = asyncio.create_task(connections.exchange(b"request", tls))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_an_answer_that_arrives_in_parts_is_put_together(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    assert opened[0].sent == [b"request"]
    raw = (
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    for byte in raw:
        opened[0].receive(bytes([byte]))
    answer = await task
    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (429, b"abcde", "3")


async def test_an_idle_connection_is_used_again(
    connections: Connections, opened: list[Transport]
) -> None:
    for _ in range(2):
        task = await begin(connections)
        opened[0].receive(OK)
        assert (await task).body == b"{}"
    assert len(opened) == 1


async def test_an_answer_without_a_body_is_not_taken_for_the_answer_to_the_next_request(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    opened[0].receive(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (await task).status == 204
    task = await begin(connections)
    opened[0].break_()
    with pytest.raises(BrokenConnectionError, match="the server closed it"):
        await task
    assert len(opened) == 1


async def test_requests_at_the_same_time_have_connections_of_their_own(
    connections: Connections, opened: list[Transport]
) -> None:
    tasks = [await begin(connections), await begin(connections)]
    for transport in opened:
        transport.receive(OK)
    assert [(await task).status for task in tasks] == [201, 201]
    assert len(opened) == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), id="says close"),
        pytest.param(OK + OK, id="two answers to one request"),
    ],
)
async def test_a_connection_that_cannot_be_used_again_is_closed(
    connections: Connections, opened: list[Transport], answer: bytes
) -> None:
    task = await begin(connections)
    opened[0].receive(answer)
    assert (await task).body == b"{}"
    assert not opened[0].is_open
    await begin(connections)
    assert len(opened) == 2


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
async def test_a_connection_that_breaks_while_it_is_idle_is_not_used_again(
    connections: Connections, opened: list[Transport], data: bytes
) -> None:
    task = await begin(connections)
    opened[0].receive(OK)
    await task
    if data:
        opened[0].receive(data)
    else:
        opened[0].break_()
    await begin(connections)
    assert len(opened) == 2


async def test_other_certificates_need_another_connection(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections, ssl.create_default_context())
    opened[0].receive(OK)
    await task
    await begin(connections, ssl.create_default_context())
    assert len(opened) == 2
    assert not opened[0].is_open


@pytest.mark.parametrize(
    "received", [b"", b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{}"], ids=["none", "part"]
)
@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")])
async def test_an_answer_that_is_not_whole_is_an_error(
    connections: Connections, opened: list[Transport], received: bytes, error: Exception | None
) -> None:
    task = await begin(connections)
    if received:
        opened[0].receive(received)
    opened[0].break_(error)
    with pytest.raises(BrokenConnectionError, match="reset" if error else "the server closed it"):
        await task


async def test_an_answer_without_a_length_ends_with_the_connection(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    opened[0].receive(b"HTTP/1.1 503 Service Unavailable\r\n\r\nno backend")
    opened[0].break_()
    assert (await task).body == b"no backend"


async def test_what_is_no_http_is_an_error(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    opened[0].receive(b"SSH-2.0-OpenSSH\r\n")
    with pytest.raises(BrokenConnectionError, match="not HTTP"):
        await task
    assert not opened[0].is_open


async def test_an_early_answer_is_not_the_answer(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    opened[0].receive(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)
    answer = await task
    assert (answer.status, "Link" in answer.headers) == (201, False)


async def test_the_connection_of_a_cancelled_request_is_closed(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not opened[0].is_open


async def test_once_one_connection_is_dead_idle_ones_are_not_used_again(
    connections: Connections, opened: list[Transport]
) -> None:
    tasks = [await begin(connections), await begin(connections)]
    for transport in opened:
        transport.receive(OK)
    await asyncio.gather(*tasks)
    task = await begin(connections)
    opened[1].break_(ConnectionResetError("reset"))
    with pytest.raises(BrokenConnectionError):
        await task
    await begin(connections)
    assert [len(transport.sent) for transport in opened] == [1, 2, 1]


async def test_close_closes_idle_connections(
    connections: Connections, opened: list[Transport]
) -> None:
    task = await begin(connections)
    opened[0].receive(OK)
    await task
    connections.close()
    assert not opened[0].is_open


async def test_a_refused_connection_means_that_nothing_was_done(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", refuse)
    with pytest.raises(Unavailable, match=r"cannot connect to server:443: .*refused"):
        await connections.exchange(b"request", None)


def test_a_request_is_encoded_with_its_length() -> None:
    assert encode("POST", "/a", {"Host": "h"}, b"{}") == (
        b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\rb"])
def test_no_header_contains_a_line_break(value: str) -> None:
    with pytest.raises(ValueError, match="a line break"):
        encode("POST", "/a", {"X": value}, b"")


async def test_an_answer_that_is_too_large_is_an_error_before_it_is_whole(
    connections: Connections, opened: list[Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podsched.serve.kube.connections._MAX_ANSWER", 1)
    task = await begin(connections)
    opened[0].receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(17):
        opened[0].receive(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    assert not opened[0].is_open
    with pytest.raises(BrokenConnectionError, match="the answer has more than 1 MiB"):
        await task


async def test_the_size_of_an_answer_is_that_of_it_alone(
    connections: Connections, opened: list[Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podsched.serve.kube.connections._MAX_ANSWER", 1)
    for _ in range(3):
        task = await begin(connections)
        opened[0].receive(b"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n" + b"x" * 600_000)
        assert len((await task).body) == 600_000
    assert len(opened) == 1


async def test_nothing_is_sent_if_it_may_not_be_any_more_once_there_is_a_connection(
    opened: list[Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    leads = True

    def check() -> None:
        if not leads:
            raise FenceLost("the term is over")

    connect = asyncio.BaseEventLoop.create_connection

    async def slowly(*args: Any, **options: Any) -> Any:
        nonlocal leads
        leads = False  # The process was paused, or the lease was taken.
        return await connect(*args, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", slowly)
    http = KubeHttp(ClusterAccess("http://kubernetes"))
    with pytest.raises(FenceLost):
        await http.request("POST", "/binding", body={}, before=check)
    assert [transport.sent for transport in opened] == [[]]
