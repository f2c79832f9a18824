"""HTTP with a port of a pod, through the port-forward of its kubelet.

The API server connects to the kubelet alone. A pod's address, which the kubelet says itself, is
never connected to, and the API server need not be in the network of the pods.

The container runtime behind the kubelet speaks ``v4.channel.k8s.io``: each message of a WebSocket
begins with its channel, 0 for data and 1 for errors, and each channel begins with the port in two
bytes. A pair of sockets is between the WebSocket and the HTTP client.

Source: pkg/kubelet/cri/streaming/portforward/websocket.go, v1.36.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from podsched.lib.tasks import until_first_ends
from podsched.serve.server.kubelets.client import (
    ANSWER_SECONDS,
    Headers,
    KubeletError,
)
from podsched.serve.server.kubelets.relay import IDLE_SECONDS, PIECE

PROTOCOL: Final = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
#: Bytes of the port at the beginning of a channel.
_PORT_SIZE: Final = 2
#: Bytes that are sent in a message.
_MESSAGE: Final = 32 << 10


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port in a pod; tls: speak HTTPS to it."""

    pod: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"port {self.port} of pod {self.pod}"


class PodConnection:
    """A connection to a port of a pod, for one request."""

    def __init__(self, port: PodPort, channels: aiohttp.ClientWebSocketResponse) -> None:
        self._port = port
        self._channels = channels
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._session = aiohttp.ClientSession(
            connector=_Given(ours, port.tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=PIECE // 2,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        #: Bytes of the port that each channel has still to send.
        self._to_skip = {_DATA: _PORT_SIZE, _ERROR: _PORT_SIZE}
        self._said = ""
        self._forwarding = asyncio.create_task(self._forward(theirs), name="forward to a pod")

    def close(self) -> None:
        """End the connection, without waiting for it."""
        self._forwarding.cancel()

    async def request(
        self, method: str, target: str, headers: Headers, body: bytes | None
    ) -> aiohttp.ClientResponse:
        """Send a request, and return the answer when its head has arrived; ``close`` it.

        target: path and query, already encoded. Raises KubeletError.
        """
        port = self._port
        url = f"{'https' if port.tls else 'http'}://localhost:{port.port}{target}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._session.request(
                    method,
                    URL(url, encoded=True),
                    headers=[("Connection", "close"), *headers],
                    data=body,
                    allow_redirects=False,
                    skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                )
        except TimeoutError:
            raise KubeletError(f"{port}: no answer within {ANSWER_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = self._said or str(error) or type(error).__name__
            raise KubeletError(f"{port} cannot be reached: {why}") from None

    async def _forward(self, theirs: socket.socket) -> None:
        """Copy until the WebSocket or the HTTP client ends; then wait until this is closed."""
        try:
            await self._copy(theirs)
            # What has arrived can still be read.
            await asyncio.get_running_loop().create_future()
        finally:
            await self._session.close()

    async def _copy(self, theirs: socket.socket) -> None:
        """Copy between the WebSocket and a socket until one of them ends."""
        reader, writer = await asyncio.open_connection(sock=theirs)
        try:
            async with asyncio.timeout(IDLE_SECONDS), self._channels:
                await until_first_ends(
                    {"to a pod": self._send(reader), "from a pod": self._receive(writer)}
                )
        except (aiohttp.ClientError, OSError):
            pass  # the HTTP client sees that its socket is closed
        finally:
            writer.close()

    async def _send(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_MESSAGE):
            await self._channels.send_bytes(bytes([_DATA]) + data)

    async def _receive(self, writer: asyncio.StreamWriter) -> None:
        async for message in self._channels:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            to_skip = self._to_skip.get(channel, 0)
            self._to_skip[channel] = max(0, to_skip - len(data))
            data = data[to_skip:]
            if channel == _ERROR and data:
                self._said = " ".join(data[:1000].decode("utf-8", "replace").split())
                return
            if channel == _DATA and data:
                writer.write(data)
                await writer.drain()


class _Given(aiohttp.BaseConnector):
    """Has one connection, which is already made; the rest as aiohttp's UnixConnector."""

    def __init__(self, connected: socket.socket, tls: bool) -> None:
        super().__init__(limit=0, force_close=True)
        self._connected = connected
        self._tls: ssl.SSLContext | None = None
        if tls:
            # As kube-apiserver, which does not verify pods: their certificates are for other names.
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE

    async def _create_connection(self, *_: Any) -> ResponseHandler:
        name = "" if self._tls is not None else None
        made = await self._loop.create_connection(
            self._factory, sock=self._connected, ssl=self._tls, server_hostname=name
        )
        return made[1]
