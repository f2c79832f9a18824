"""Sends requests to kubelets over HTTPS, and translates errors.

A connection is made for each request and closed after it, because kubelets are many and each is
asked seldom. Redirects are not followed, proxies and cookies not used. A kubelet's
certificate is verified only if there are authorities for it, as in kube-apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import aiohttp
from yarl import URL

from podsched.api.objects import Node
from podsched.lib.tls_contexts import ConnectingContext, TlsFiles
from podsched.serve.server.kubelets.addresses import (
    CheckAddress,
    Endpoint,
    NoAddress,
    kubelet_endpoint,
)
from podsched.serve.server.kubelets.relay import PIECE, Stream
from podsched.serve.server.kubelets.settings import KubeletSettings
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")

#: Seconds to connect, the TLS handshake included, and for the head of an answer.
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
#: Bytes of the head of an answer to an upgrade, and of an error's text.
_HEAD: Final = 16 << 10
_ERROR_TEXT: Final = 4 << 10
_SWITCHING: Final = 101
#: Max bytes of a message of a WebSocket; container runtimes send 32 KiB at a time.
_MESSAGE: Final = 1 << 20

Headers = Sequence[tuple[str, str]]


class KubeletError(Exception):
    """A request that failed at a kubelet. status: its answer's, 0 if there is none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message[:1000])
        self.status = status


class KubeletClient:
    """A client of all kubelets; ``close`` it after use."""

    def __init__(self, settings: KubeletSettings, check: CheckAddress) -> None:
        """check: refuses addresses. Raises CertificateError for unusable files."""
        self._preferred = settings.address_types
        self._check = check
        authority = settings.certificate_authority
        files = TlsFiles(authority, settings.client_certificate, settings.client_key)
        self._tls = ConnectingContext(files, _keep, verify=bool(authority))
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def endpoint(self, node: Node) -> Endpoint:
        """Return where a node's kubelet listens. Raises KubeletError."""
        try:
            return await kubelet_endpoint(node, self._preferred, self._check)
        except NoAddress as error:
            name = node.metadata.name
            raise KubeletError(f"the kubelet of node {name} cannot be asked: {error}") from None

    async def request(
        self,
        endpoint: Endpoint,
        method: str,
        target: str,
        *,
        headers: Headers = (),
        body: bytes | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the answer when its head has arrived; ``close`` it.

        target: path and query, already encoded. Raises KubeletError.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._opened().request(
                    method,
                    URL(endpoint.url + target, encoded=True),
                    headers=headers,
                    data=body,
                    ssl=self._tls.latest(),
                    server_hostname=endpoint.host,
                    allow_redirects=False,
                    skip_auto_headers=("User-Agent", "Accept-Encoding", "Content-Type"),
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(endpoint, error, seconds) from None

    async def upgrade(
        self, endpoint: Endpoint, method: str, target: str, headers: Headers
    ) -> tuple[bytes, Stream]:
        """Ask a kubelet to switch protocols; return the head of its answer and the connection.

        headers: those of the upgrade. Raises KubeletError, also if the kubelet refuses.
        """
        stream = await self._connect(endpoint)
        try:
            lines = [f"{method} {target} HTTP/1.1", f"Host: {endpoint.authority}"]
            lines += [f"{name}: {value}" for name, value in headers]
            lines += ["Content-Length: 0"] if method == "POST" else []
            stream.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            async with asyncio.timeout(ANSWER_SECONDS):
                head = await stream.reader.readuntil(b"\r\n\r\n")
                status = _status(head)
                if status != _SWITCHING:
                    raise _answered(endpoint, status, await _error_text(stream, head))
        except BaseException as error:
            stream.abort()
            if isinstance(error, OSError | EOFError | asyncio.LimitOverrunError | ValueError):
                raise _unreachable(endpoint, error, ANSWER_SECONDS) from None
            raise
        return head, stream

    async def channels(
        self, endpoint: Endpoint, target: str, protocol: str
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket; ``close`` it. Raises KubeletError."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._opened().ws_connect(
                    URL(endpoint.url + target, encoded=True),
                    protocols=[protocol],
                    ssl=self._tls.latest(),
                    server_hostname=endpoint.host,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1),
                    max_msg_size=_MESSAGE,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise _answered(endpoint, error.status, error.message) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(endpoint, error, ANSWER_SECONDS) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # WebSockets of aiohttp would follow redirects.
            refusing = aiohttp.TraceConfig()
            refusing.on_request_redirect.append(_refuse_redirect)
            # With a limit, streams that last would keep others from connecting.
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=PIECE // 2,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trace_configs=[refusing],
            )
        return self._session

    async def _connect(self, endpoint: Endpoint) -> Stream:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    endpoint.ip,
                    endpoint.port,
                    ssl=self._tls.latest(),
                    server_hostname=endpoint.host,
                    limit=_HEAD,
                )
        except (OSError, ValueError) as error:
            raise _unreachable(endpoint, error, CONNECT_SECONDS) from None
        writer.transport.set_write_buffer_limits(PIECE)
        return Stream(reader, writer)


async def _refuse_redirect(*_: object) -> None:
    raise aiohttp.ClientError("it redirects, which no kubelet does")


def _keep(problem: str) -> None:
    _log.warning("Keeping the kubelet client certificate in use", error=problem)


def _status(head: bytes) -> int:
    """Return the status in the head of an answer. Raises ValueError."""
    version, code, *_ = [*head.split(b"\r\n", 1)[0].split(b" ", 2), b""]
    if not version.startswith(b"HTTP/1."):
        raise ValueError("the answer is not HTTP")
    return int(code)


async def _error_text(stream: Stream, head: bytes) -> str:
    """Return the beginning of the text of an error, as far as its length is told."""
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length" and value.strip().isdigit():
            size = min(int(value), _ERROR_TEXT)
            return (await stream.reader.readexactly(size)).decode("utf-8", "replace")
    return ""


async def check_answer(endpoint: Endpoint, response: aiohttp.ClientResponse) -> None:
    """Raise KubeletError for an answer other than 200, with the beginning of its text."""
    if response.status == 200:
        return
    text = ""
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(CONNECT_SECONDS):
            text = (await response.content.read(_ERROR_TEXT)).decode("utf-8", "replace")
    raise _answered(endpoint, response.status, text)


def _answered(endpoint: Endpoint, status: int, text: str) -> KubeletError:
    """Make the error for a kubelet's answer that is one."""
    message = f"{endpoint} answered {status}: {' '.join(text.split())}".rstrip(": ")
    if status in (401, 403):
        message += " (see --kubelet-client-certificate)"
    return KubeletError(message, status)


def _unreachable(endpoint: Endpoint, error: BaseException, seconds: float) -> KubeletError:
    why = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        why = f"no answer within {seconds:g} s"
    elif isinstance(error, EOFError):
        why = "it closed the connection"
    return KubeletError(f"{endpoint} cannot be reached: {why}")
