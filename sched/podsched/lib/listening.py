"""Listeners of asyncio with a bounded number of connections; when full, idle ones are closed.

    accept --full--> reset, or in place of the one that has waited for longest
       |
       '--> silent: handshake of TLS, first request --whole--> in use <--> idle
                  '------ not within PATIENCE: closed            idle too long: closed

A connection counts from when it is accepted until it is closed. Otherwise endless handshakes would
use up files and memory, and a process without free files cannot reach etcd either. The protocol
reports when a whole request has arrived and when it is answered (``Connection.in_use``). So clients
that only open connections or send half a request do not keep others out. One address gets at most
half of all connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

#: Seconds for the handshake of TLS, and as many for each request from its first bytes to the end
#: of its headers.
PATIENCE: Final = 10.0
#: Connections that have not asked for anything yet, at a time: a handshake has buffers of 300 KB.
_MOST_SILENT: Final = 400
#: What one address may have of connections, and of those that are silent.
_OF_ONE_ADDRESS: Final = 0.5
#: One listener's share of the files that the process may open: it has up to five of them, and
#: needs some for itself.
_SHARE: Final = 8
#: Bytes that wait to be sent, here and in the kernel each, before the writer has to wait. By
#: default 512 KiB with TLS, and the kernel takes 4 MB for each client that does not read.
_UNSENT: Final = 64 << 10


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
        idle_seconds: float,
    ) -> None:
        """make: returns the protocol of a connection on which something has come.

        most: connections at a time, see ``connection_limit``; idle_seconds: those without a request
        are closed then, if they have not had to give way before.
        """
        self.make = make
        self.tls = tls
        self.idle_seconds = idle_seconds
        self._most = connection_limit(most)
        #: The number of connections, of all addresses and of each.
        self.open = 0
        self._of_address: Counter[str] = Counter()
        #: Those whose first request has not come, and those between two: whose turn it is to give
        #: way comes first.
        self.silent: dict[Connection, None] = {}
        self.idle: dict[Connection, None] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen; 0 takes a free port. Raises OSError when the address cannot be had.

        host: an absolute path is that of a Unix socket. shared: others may listen there as well.
        """
        loop = asyncio.get_running_loop()
        if host.startswith("/"):
            self._server = await loop.create_unix_server(lambda: Connection(self), host)
            return
        reuse = shared or None
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, reuse_port=reuse
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Take no more connections, and end those that have not asked for anything."""
        if self._server is not None:
            self._server.close()
        for task in self._handshakes:
            task.cancel()
        for connection in list(self.silent):
            connection.abort()

    def admit(self, new: Connection) -> bool:
        """Return whether there is room for a connection, which then counts.

        Room is made by the one that has waited for longest, silent ones first.
        """
        address = new.address
        if address and self._silent_of(address) >= _MOST_SILENT * _OF_ONE_ADDRESS:
            leaving = self._longest_waiting(address)
        elif len(self.silent) >= _MOST_SILENT:
            leaving = self._longest_waiting()
        elif address and self._of_address[address] >= max(1, self._most * _OF_ONE_ADDRESS):
            leaving = self._longest_waiting(address)
        elif self.open >= self._most:
            leaving = self._longest_waiting()
        else:
            leaving = new
        if leaving is None:
            return False
        if leaving is not new:
            leaving.abort()
        self.open += 1
        self._of_address[address] += 1
        self.silent[new] = None
        return True

    def _silent_of(self, address: str) -> int:
        """Return how many of an address are silent, 0 while too few are for a bound."""
        if len(self.silent) < _MOST_SILENT * _OF_ONE_ADDRESS:
            return 0
        return sum(known.address == address for known in self.silent)

    def _longest_waiting(self, address: str | None = None) -> Connection | None:
        for waiting in (self.silent, self.idle):
            for connection in waiting:
                if address is None or connection.address == address:
                    return connection
        return None

    def discard(self, connection: Connection) -> None:
        """Count a connection no longer."""
        self.open -= 1
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)

    def secure(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Begin the handshake of TLS."""
        task = asyncio.create_task(self._secured(connection, transport), name="handshake of TLS")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _secured(self, connection: Connection, transport: asyncio.Transport) -> None:
        assert self.tls is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport, connection, self.tls, server_side=True, ssl_handshake_timeout=PATIENCE
            )
        except (OSError, ssl.SSLError) as error:  # it has failed, or taken too long
            connection.leave()
            # Else the error, its frames and the buffers of TLS hold each other: 40 KB, which would
            # wait for a cyclic collection.
            error.__traceback__ = None
            return
        if secured is not None:
            connection.listen_to(secured)


class Connection(asyncio.Protocol):
    """One connection, which passes what comes on to the protocol that is served."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.address = ""
        self._accepted: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self._protocol: asyncio.Protocol | None = None
        #: What has come with the end of the handshake.
        self._early = b""
        self._timer: asyncio.TimerHandle | None = None
        #: Whether the timer is that of a request that has begun to come.
        self._hurried = False
        #: Called when the connection is lost.
        self.on_lost: Callable[[], None] | None = None

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Say that a whole request has come: for the block, the connection has its place."""
        self._stop_timer()
        listener = self._listener
        listener.silent.pop(self, None)
        listener.idle.pop(self, None)
        try:
            yield
        finally:
            if self._accepted is not None:
                listener.idle[self] = None
                self._abort_after(listener.idle_seconds)

    def abort(self) -> None:
        """Close at once, and throw away what has not been sent."""
        accepted = self._accepted
        self.leave()
        if accepted is not None:
            accepted.abort()

    def leave(self) -> None:
        """Give up the place at the listener."""
        self._stop_timer()
        if self._accepted is not None:
            self._accepted = None
            self._listener.discard(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        _hold_back(transport)
        if not self._listener.admit(self):
            transport.abort()
            return
        self._accepted = transport
        if self._listener.tls is None:
            self.listen_to(transport)
        else:
            transport.pause_reading()
            self._listener.secure(self, transport)

    def listen_to(self, transport: asyncio.Transport) -> None:
        """Wait for the first request, for as long as there is patience."""
        self._transport = transport
        transport.set_write_buffer_limits(_UNSENT)  # that of TLS has one of its own
        self._abort_after(PATIENCE)
        self._hurried = True
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data
            return
        if self._protocol is None:
            self._protocol = self._listener.make()
            self._protocol.connection_made(self._transport)
        if self._timer is not None and not self._hurried:
            self._abort_after(PATIENCE)
            self._hurried = True
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received() if self._protocol is not None else None

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        if self._protocol is not None:
            self._protocol.connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()

    def _abort_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _stop_timer(self) -> None:
        self._hurried = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _hold_back(transport: asyncio.Transport) -> None:
    """Have the kernel take more only when nearly all that it has is on its way."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    sock = transport.get_extra_info("socket")
    if option is not None and sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, option, _UNSENT)
