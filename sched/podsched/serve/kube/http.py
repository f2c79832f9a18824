"""Sends requests to a kube-apiserver over pooled connections, and translates errors.

Watches use aiohttp, as the health server does. Each other request is small and takes a connection
of ``connections`` for itself. Rejected for them: aiohttp takes 2.5 times the CPU, httpcore 50
times, and pyreqwest as much over HTTP/2, but its process crashed once.

    sent --answered--> done, or a ClientError
      ^ |
      | '-- 429 or 5xx with Retry-After: nothing was done -----------------.
      |  -- the connection was refused, or broke and repeating is harmless --+-- pause
      |  -- 401: with the token read again, once                             |
      '----------------------- until the deadline ---------------------------'

Once an attempt had an unknown outcome, so has a request that is not answered in the end. Errors of
aiohttp never leave this module.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import aiohttp
import orjson

from podsched import __version__
from podsched.lib.backoff import Backoff
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client import errors
from podsched.serve.client.errors import (
    ClientError,
    OutcomeUnknown,
    TooManyRequests,
    Unavailable,
    Unreadable,
)
from podsched.serve.client.http_terms import NO_ANSWER
from podsched.serve.kube.access import ClusterAccess
from podsched.serve.kube.connections import BrokenConnectionError, Connections, encode
from podsched.serve.kube.status import error_of

if TYPE_CHECKING:
    from podsched.serve.client.call_metrics import ClientTelemetry

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

#: Max concurrent requests. At 5 ms each that is 6,400 a second; more would only wait in the server,
#: and might be executed when they are no longer wanted.
_MAX_CONCURRENT = 32
#: Max connections of watches: one for each kind, of which there are about 25.
_WATCHES = 80
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
#: Seconds to connect, and without a byte on a watch; bookmarks mostly come once a minute.
_CONNECT_TIMEOUT, _WATCH_SILENCE = 5.0, 90.0
#: Longest line of a watch: etcd's limit of 1.5 MiB, with room for what JSON adds.
_MAX_LINE = 16 << 20
#: Bytes that are read of the answer that refuses a watch.
_REFUSAL = 1 << 20
_MAX_RETRY_AFTER = 60.0
_UNAUTHORIZED = 401

_HEADERS: Final = {
    "User-Agent": f"podsched/{__version__}",
    "Accept": "application/json",
    # On a local network, compression costs more than it saves.
    "Accept-Encoding": "identity",
}

Params = Mapping[str, str]


class KubeHttp:
    """An HTTP client of one kube-apiserver; ``close`` it after use."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        timeout: float = 10.0,
        wait_for_server: bool = True,
        observer: ClientTelemetry | None = None,
    ) -> None:
        """Create a client; it connects with its first request.

        timeout: max seconds of a request with its retries. wait_for_server: whether to wait, within
        this time, while the server refuses connections.
        """
        self.access = access
        self._timeout = timeout
        self._wait_for_server = wait_for_server
        self._observer = observer
        self._session: aiohttp.ClientSession | None = None
        url = urlsplit(access.server)
        assert (access.tls is not None) == (url.scheme == "https")
        self._connections = Connections(
            url.hostname or "",
            url.port or (443 if url.scheme == "https" else 80),
            access.server_hostname,
            _CONNECT_TIMEOUT,
        )
        self._root = url.path
        self._host = url.netloc.rpartition("@")[2]
        self._always = {"Host": self._host, **_HEADERS}
        self._room = asyncio.Semaphore(_MAX_CONCURRENT)

    async def close(self) -> None:
        """Close the connections."""
        self._connections.close()
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request and return the object in the JSON answer; options as in ``request_bytes``.

        Raises ClientError.
        """
        raw = await self.request_bytes(method, path, **options)
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Unreadable(f"the answer to {method} {path} is not JSON") from error
        if not isinstance(answer, dict):
            raise Unreadable(f"the answer to {method} {path} is not an object")
        return answer

    async def request_bytes(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content_type: str = "application/json",
        params: Params | None = None,
        repeatable: bool = False,
        retry_after: bool = True,
        limit: TokenBucket | None = None,
        before: Callable[[], None] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request and return the answer. Raises ClientError.

        body: bytes are sent unchanged, anything else as JSON.
        repeatable: the request is idempotent, so it is retried if its outcome is unknown.
        retry_after: 429 means that the server is overloaded, not that the operation is refused.
        before: called right before each attempt, after all waiting; its exceptions end the request.
        """
        if body is not None:
            headers = {**(headers or {}), "Content-Type": content_type}
        data = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
        clock = asyncio.get_running_loop().time
        deadline = None
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        repeatable = repeatable or method == "GET"
        renew = in_doubt = False
        while True:
            if limit is not None:
                await self._wait_for_turn(limit, method)
            # The first wait under the rate limit does not count.
            deadline = deadline or clock() + self._timeout
            try:
                async with self._room:
                    all_headers = {**await self._headers(renew=renew), **(headers or {})}
                    return await self._once(
                        method, path, params, data, all_headers, deadline, before
                    )
            except ClientError as error:
                delay = max(backoff.next_delay(), min(error.retry_after, _MAX_RETRY_AFTER))
                refused = error.http_status == _UNAUTHORIZED and not renew
                in_doubt = in_doubt or error.outcome_unknown
                repeats = refused or self._may_repeat(error, repeatable, retry_after)
                if not repeats or clock() + delay >= deadline:
                    last = errors.in_doubt(error) if in_doubt else error
                    raise last from error.__cause__
                renew = renew or refused
                if self._observer is not None:
                    self._observer.call_repeated(method, str(error.http_status or ""), self._host)
            await asyncio.sleep(delay)

    async def lines(self, path: str, params: Params) -> AsyncGenerator[list[bytes], None]:
        """Yield the lines of a watch, in the groups in which they arrive, until the server ends it.

        It also ends after a long silence: a server that has not seen a change of the kind since its
        start sends no bookmarks, so whether the connection works only a new watch shows.
        Raises ClientError if it is refused or breaks. ``aclose`` it.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=_WATCH_SILENCE
        )
        headers = await self._headers()
        async with _translated():
            session = self._opened()
            async with session.get(
                self.access.server + path,
                params=params,
                headers=headers,
                timeout=timeout,
                ssl=self._tls or True,
                server_hostname=self.access.server_hostname or None,
                allow_redirects=False,
            ) as response:
                if response.status == _UNAUTHORIZED:
                    await self._headers(renew=True)  # for the next try
                if response.status != 200:
                    raw = await _beginning(response.content, _REFUSAL)
                    raise error_of(response.status, raw, response.headers)
                rest = b""
                while chunk := await _next_chunk(response.content):
                    *lines, rest = (rest + chunk).split(b"\n")
                    if len(rest) > _MAX_LINE:
                        raise Unreadable(f"a line of the watch has more than {_MAX_LINE} bytes")
                    if lines:
                        yield lines

    async def _wait_for_turn(self, limit: TokenBucket, method: str) -> None:
        delay = limit.reserve(1, asyncio.get_running_loop().time())
        if delay > 0:
            try:
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                # As in client-go. Otherwise the next term would wait for all that this one queued.
                limit.give_back(1)
                raise
        if self._observer is not None:
            self._observer.call_waited(method, self._host, delay)

    def _may_repeat(self, error: ClientError, repeatable: bool, retry_after: bool) -> bool:
        """Return whether a failed request may be sent again; see ``request`` for the flags."""
        if isinstance(error, TooManyRequests):
            return retry_after  # nothing was done
        if error.http_status and error.retry_after > 0:
            return True
        if not isinstance(error, Unavailable):
            return False
        may_be_done = error.outcome_unknown or error.http_status > 0
        return repeatable if may_be_done else self._wait_for_server

    @property
    def _tls(self) -> ssl.SSLContext | None:
        return self.access.tls.latest() if self.access.tls is not None else None

    def _opened(self) -> aiohttp.ClientSession:
        """Return the session, which must be created within a running loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_WATCHES),
                headers=_HEADERS,
                skip_auto_headers=["Content-Type"],
            )
        return self._session

    async def _headers(self, *, renew: bool = False) -> dict[str, str]:
        token = await self.access.token.token(renew=renew)
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _once(
        self,
        method: str,
        path: str,
        params: Params | None,
        data: bytes,
        headers: Mapping[str, str],
        deadline: float,
        before: Callable[[], None] | None,
    ) -> bytes:
        """Send a request once, and return the answer. Raises ClientError."""
        clock = asyncio.get_running_loop().time
        began = clock()
        code = NO_ANSWER
        received = None
        target = f"{self._root}{path}?{urlencode(params)}" if params else self._root + path
        request = encode(method, target, {**self._always, **headers}, data)
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._connections.exchange(request, self._tls, before)
            code, received = str(answer.status), len(answer.body)
        except BrokenConnectionError as error:
            text = f"the connection broke during {method} {path}: {error}"
            raise _lost(method == "GET", text) from error
        except TimeoutError as error:
            raise _lost(method == "GET", "the server did not answer in time") from error
        finally:
            if self._observer is not None:
                seconds = clock() - began
                self._observer.call_tried(method, code, self._host, seconds, len(data), received)
        if answer.status >= 300:
            # Redirections, too, are refusals: no API server sends them, but proxies do.
            raise error_of(answer.status, answer.body, answer.headers)
        return answer.body


async def _next_chunk(content: aiohttp.StreamReader) -> bytes:
    """Return what has arrived; b"" at the end, and after a silence."""
    try:
        return await content.readany()
    except TimeoutError:
        return b""


async def _beginning(content: aiohttp.StreamReader, size: int) -> bytes:
    """Return all of a body, or at least its first bytes if it has more."""
    raw = b""
    async for chunk in content.iter_any():
        raw += chunk
        if len(raw) >= size:
            break
    return raw


@asynccontextmanager
async def _translated() -> AsyncGenerator[None, None]:
    """Translate exceptions of aiohttp within the block to Unavailable."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise Unavailable(
            f"cannot connect to {error.host}:{error.port}: {error.os_error}"
        ) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise Unavailable("the server did not accept the connection in time") from error
    except TimeoutError as error:
        raise Unavailable("the server did not answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise Unavailable(f"the connection broke: {error or type(error).__name__}") from error


def _lost(repeatable: bool, message: str) -> ClientError:
    return Unavailable(message) if repeatable else OutcomeUnknown(message)
