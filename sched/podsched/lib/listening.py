"""Listeners of asyncio: a bounded number of connections, and little time for those that are silent.

    accept --full--> reset, or in place of the one that has been silent for longest
       |
       '--> handshake of TLS --> first bytes --> the protocol that is served
                  '------ not within PATIENCE: closed

A connection counts from the moment it is accepted: handshakes that never end would cost files and
memory otherwise, and a process without files cannot reach etcd either.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import ssl
import weakref
from collections.abc import Callable
from typing import Final

#: Seconds for the handshake of TLS, and as many for the first bytes.
PATIENCE: Final = 10.0
#: Connections on which nothing has come, at a time: a handshake has buffers of 300 KB.
_MOST_SILENT: Final = 200
#: One listener's share of the files that the process may open: it has up to five of them, and
#: needs some for itself.
_SHARE: Final = 8


def raise_file_limit() -> None:
    """Let the process open as many files as it may allow itself, as programs in Go do.

    The limit that is usual, 1024, is for programs that use select().
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a system with a limit of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connection_limit(most: int) -> int:
    """Return how many connections a listener may hold: ``most``, or its share of the files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // _SHARE))


class Listener:
    """One address. With TLS, protocols are made when the handshake is done."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        most: int,
        tls: ssl.SSLContext | None,
    ) -> None:
        """make: returns the protocol of a connection on which something has come.

        most: connections at a time, see ``connection_limit``.
        """
        self.make = make
        self.tls = tls
        self._most = connection_limit(most)
        self._open: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        #: Those on which nothing has come yet, the oldest first.
        self.silent: dict[asyncio.Transport, None] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen; 0 takes a free port. Raises OSError when the address cannot be had.

        host: an absolute path is that of a Unix socket. shared: others may listen there as well.
        """
        loop = asyncio.get_running_loop()
        if host.startswith("/"):
            self._server = await loop.create_unix_server(lambda: _Door(self), host)
            return
        reuse = shared or None
        self._server = await loop.create_server(lambda: _Door(self), host, port, reuse_port=reuse)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Take no more connections, and end those on which nothing has come."""
        if self._server is not None:
            self._server.close()
        for task in self._handshakes:
            task.cancel()
        for transport in list(self.silent):
            transport.abort()

    def admit(self, transport: asyncio.Transport) -> bool:
        """Return whether there is room for a connection, which then counts."""
        if len(self._open) >= self._most:
            for known in [known for known in self._open if known.is_closing()]:
                self._open.discard(known)
        if len(self._open) >= self._most or len(self.silent) >= _MOST_SILENT:
            if not self.silent:
                return False
            oldest = next(iter(self.silent))
            del self.silent[oldest]
            self._open.discard(oldest)
            oldest.abort()
        self._open.add(transport)
        self.silent[transport] = None
        return True

    def secure(self, door: _Door, transport: asyncio.Transport) -> None:
        """Begin the handshake of TLS."""
        task = asyncio.create_task(self._secured(door, transport), name="handshake of TLS")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _secured(self, door: _Door, transport: asyncio.Transport) -> None:
        assert self.tls is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport, door, self.tls, server_side=True, ssl_handshake_timeout=PATIENCE
            )
        except (OSError, ssl.SSLError) as error:  # it has failed, or taken too long
            self.silent.pop(transport, None)
            # Else the error, its frames and the buffers of TLS hold each other: 40 KB, which would
            # wait for a cyclic collection.
            error.__traceback__ = None
            return
        if secured is not None:
            door.listen_to(secured)


class _Door(asyncio.Protocol):
    """A connection until something comes on it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._accepted: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        #: What has come with the end of the handshake.
        self._early = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._listener.admit(transport):
            transport.abort()
            return
        self._accepted = transport
        if self._listener.tls is None:
            self.listen_to(transport)
        else:
            transport.pause_reading()
            self._listener.secure(self, transport)

    def listen_to(self, transport: asyncio.Transport) -> None:
        """Wait for the first bytes, for as long as there is patience."""
        self._transport = transport
        if self._early:
            self.data_received(b"")
        else:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._early += data
        if self._transport is None:
            return
        self._leave()
        protocol = self._listener.make()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._accepted is not None:
            self._listener.silent.pop(self._accepted, None)
