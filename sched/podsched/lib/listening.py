"""asyncio listeners with a bounded number of connections; when full, idle ones are closed.

    accepted --no room--> the longest waiting one is closed, or else this one
       |
       '--> silent: TLS handshake, first request --complete--> in use <--> idle
              |                                                             |
              '--not within REQUEST_SECONDS--> closed  <--after idle_seconds'

A connection counts from when it is accepted until it is closed. Otherwise endless handshakes would
use up file descriptors and memory, and a process without free descriptors cannot reach etcd either.
The protocol reports when a whole request has arrived and when it is answered
(``Connection.in_use``). So clients that only open connections or send half a request do not keep
others out. One address gets at most half of all connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, cast

from podsched.lib.tls_intake import TlsIntake

#: Seconds for the TLS handshake, and also for each request from its first bytes to the end of its
#: headers.
REQUEST_SECONDS: Final = 10.0
#: Max connections without a request so far: a TLS handshake has buffers of 60 KB.
_MAX_SILENT: Final = 400
#: Max share of one address in all connections, and in the silent ones.
_OF_ONE_ADDRESS: Final = 0.5
#: A listener may use this fraction (1/8) of the file descriptors of the process, which has up to
#: five listeners and needs some descriptors for other purposes.
_SHARE: Final = 8
#: Bytes that may wait to be sent, in this process and in the kernel each, before the writer must
#: wait. The defaults are 512 KiB with TLS and 4 MB in the kernel, for each client that does not
#: read.
_UNSENT: Final = 64 << 10


def raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit, as Go programs do.

    The usual soft limit, 1024, exists for programs that use select(2).
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems have a lower limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connection_limit(most: int) -> int:
    """Return the max connections of a listener: ``most``, or its share of file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(1, min(most, soft // _SHARE))


class Listener:
    """Listens on one address; protocols are created when the first bytes of a request arrive."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        most: int,
        tls: ssl.SSLContext | None,
        idle_seconds: float,
        *,
        greets: bool = False,
    ) -> None:
        """Create a listener; it listens after ``start``.

        make: creates the protocol of a connection; with ``greets``, which is for protocols that
        speak first, before any bytes of a request arrive. most: max connections, limited further by
        ``connection_limit``. tls: None for no TLS. idle_seconds: time without a request after which
        a connection is closed, if it was not closed before to make room.
        """
        self.make = make
        self.tls = tls
        self.idle_seconds = idle_seconds
        self.greets = greets
        self._most = connection_limit(most)
        #: Number of connections, in total and by address.
        self.open = 0
        self._of_address: Counter[str] = Counter()
        #: Connections without a complete first request, and those between two requests; each in the
        #: order in which they are closed to make room.
        self.silent: dict[Connection, None] = {}
        self.idle: dict[Connection, None] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int, *, shared: bool = False) -> None:
        """Listen; port 0 chooses a free one. Raises OSError if the address is not available.

        host: an absolute path means a Unix socket. shared: other processes may listen on the same
        address (SO_REUSEPORT).
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
        """Accept no more connections, and close those without a request."""
        if self._server is not None:
            self._server.close()
        for task in self._handshakes:
            task.cancel()
        for connection in list(self.silent):
            connection.abort()

    def admit(self, new: Connection) -> bool:
        """Count a new connection and return True, or return False if there is no room.

        To make room, the connection that has waited longest is closed, silent ones first. If the
        new connection's address has too many, only connections of this address are considered.
        """
        address = new.address
        if address and self._silent_of(address) >= _MAX_SILENT * _OF_ONE_ADDRESS:
            leaving = self._longest_waiting(address)
        elif len(self.silent) >= _MAX_SILENT:
            most = Counter(known.address for known in self.silent).most_common(1)
            leaving = self._longest_waiting(most[0][0])
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
        """Return the number of silent connections of an address.

        Returns 0 without counting while there are too few in total to reach the limit.
        """
        if len(self.silent) < _MAX_SILENT * _OF_ONE_ADDRESS:
            return 0
        return sum(known.address == address for known in self.silent)

    def _longest_waiting(self, address: str | None = None) -> Connection | None:
        for waiting in (self.silent, self.idle):
            for connection in waiting:
                if address is None or connection.address == address:
                    return connection
        return None

    def discard(self, connection: Connection) -> None:
        """Stop counting a connection."""
        self.open -= 1
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)

    def secure(self, connection: Connection, intake: TlsIntake) -> None:
        """Start the TLS handshake of a connection."""
        task = asyncio.create_task(self._secured(connection, intake), name="TLS handshake")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _secured(self, connection: Connection, intake: TlsIntake) -> None:
        assert self.tls is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                cast("asyncio.Transport", intake),
                connection,
                self.tls,
                server_side=True,
                ssl_handshake_timeout=REQUEST_SECONDS,
            )
        except (OSError, ssl.SSLError) as error:  # failed, or took too long
            connection.release_slot()
            # Break the reference cycle of the error, its frames and the TLS buffers: 40 KB, which
            # would otherwise stay until a garbage collection.
            error.__traceback__ = None
            return
        if secured is not None:
            intake.secured(secured.get_write_buffer_size)
            connection.listen_to(secured)


class Connection(asyncio.Protocol):
    """One accepted connection; passes its data to the protocol that serves it."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.address = ""
        self._accepted: asyncio.Transport | None = None
        self._transport: asyncio.Transport | None = None
        self._protocol: asyncio.Protocol | None = None
        #: The protocol that ``_protocol`` has replaced.
        self._former: asyncio.Protocol | None = None
        #: Data that arrived together with the end of the TLS handshake.
        self._early = b""
        #: When the connection is closed, in the loop's time; None while there is no limit.
        self._ends: float | None = None
        #: Looks whether ``_ends`` has come. It is not moved with each request, which would cost
        #: three timers: it goes off every REQUEST_SECONDS at least, and never after ``_ends``.
        self._timer: asyncio.TimerHandle | None = None
        #: Whether ``_ends`` limits a request that has begun, and not the time without one.
        self._hurried = False
        #: Called when the connection is lost.
        self.on_lost: Callable[[], object] | None = None

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Mark the connection as in use within the block, while a complete request is handled.

        It is not closed to make room then; afterwards it is idle.
        """
        self._ends, self._hurried = None, False
        listener = self._listener
        listener.silent.pop(self, None)
        listener.idle.pop(self, None)
        try:
            yield
        finally:
            if self._accepted is not None:
                listener.idle[self] = None
                self._abort_after(listener.idle_seconds)

    @property
    def is_lost(self) -> bool:
        """Whether it is closed, which its protocol is told a round of the event loop later."""
        return self._accepted is None or self._accepted.is_closing()

    def take_over(self, protocol: asyncio.Protocol) -> asyncio.Transport | None:
        """Pass all further data to another protocol; return the transport, None if it is lost.

        The protocol so far is told only when the connection is lost. To be called in ``in_use``.
        """
        if self._accepted is None or self._transport is None:
            return None
        self._former, self._protocol = self._protocol, protocol
        protocol.connection_made(self._transport)
        return self._transport

    def abort(self) -> None:
        """Close at once, discarding unsent data."""
        accepted = self._accepted
        self.release_slot()
        if accepted is not None:
            accepted.abort()

    def release_slot(self) -> None:
        """Stop counting at the listener; no effect the second time."""
        self._ends = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._accepted is not None:
            self._accepted = None
            self._listener.discard(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        _limit_kernel_buffer(transport)
        if not self._listener.admit(self):
            transport.abort()
            return
        self._accepted = transport
        if self._listener.tls is None:
            self.listen_to(transport)
        else:
            self._abort_after(REQUEST_SECONDS)
            TlsIntake(transport, self.address, self._begin_tls, self.release_slot)

    def _begin_tls(self, intake: TlsIntake) -> None:
        self._listener.secure(self, intake)

    def listen_to(self, transport: asyncio.Transport) -> None:
        """Wait for the first request, up to REQUEST_SECONDS; transport: TLS's, if there is TLS."""
        self._transport = transport
        transport.set_write_buffer_limits(_UNSENT)  # a TLS transport has its own limit
        self._abort_after(REQUEST_SECONDS)
        self._hurried = True
        if self._listener.greets:
            self._start(transport)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data
            return
        protocol = self._protocol or self._start(self._transport)
        # A request begins. Its time is not prolonged by further bytes, else one byte every few
        # seconds would keep the connection for ever.
        if self._ends is not None and not self._hurried:
            self._abort_after(REQUEST_SECONDS)
            self._hurried = True
        protocol.data_received(data)

    def _start(self, transport: asyncio.Transport) -> asyncio.Protocol:
        self._protocol = self._listener.make()
        self._protocol.connection_made(transport)
        return self._protocol

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received() if self._protocol is not None else None

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.release_slot()
        for protocol in (self._protocol, self._former):
            if protocol is not None:
                protocol.connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()

    def _abort_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._ends, self._hurried = loop.time() + seconds, False
        if self._timer is None or self._timer.when() > self._ends:
            self._look_again(loop)

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._ends is not None
        if self._timer is not None:
            self._timer.cancel()
        soon = loop.time() + REQUEST_SECONDS
        self._timer = loop.call_at(min(self._ends, soon), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._ends is None:
            return
        if loop.time() >= self._ends:
            self.abort()
        else:
            self._look_again(loop)


def _limit_kernel_buffer(transport: asyncio.Transport) -> None:
    """Limit the bytes that the kernel buffers for a socket before sending (TCP_NOTSENT_LOWAT)."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    sock = transport.get_extra_info("socket")
    if option is not None and sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, option, _UNSENT)
