"""TCP relays, which simulate network faults between two processes on one machine.

The processes connect through a relay. A cut relay acts like a cut cable: nothing is closed, new
connections are not accepted, and sent data waits. It arrives when the link is restored, however
late, such as the writes of a former leader. Where nothing listens at the target, because its
process is down, the relay refuses connections as well: peers conclude from this that a leader died.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass

from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet, until_first_ends

_CHUNK = 65536
#: Simulated loss: seconds until TCP first retransmits a segment, and max number of retransmissions,
#: each after twice the time of the one before.
_RESEND, _DOUBLINGS = 0.2, 3
_BACKLOG = 128
#: Seconds between checks whether a target that refused a connection listens again.
_LOOK_AGAIN = 0.02


@dataclass(frozen=True, slots=True)
class LinkState:
    """The quality of a link.

    forward, backward: whether bytes from and to the connecting process pass. delay: seconds of
    latency for each chunk. loss: fraction of the chunks that TCP must retransmit.
    """

    forward: bool = True
    backward: bool = True
    delay: float = 0.0
    loss: float = 0.0


class Link:
    """The faults of the link that a relay is in the place of."""

    def __init__(self, chance: Callable[[], float]) -> None:
        """chance: returns a random number in [0, 1)."""
        self._chance = chance
        self._states: list[LinkState] = []
        self._changed = asyncio.Event()

    def impair(self, state: LinkState) -> None:
        """Add a fault until it is restored; several at a time add up to the worst of each."""
        self._states.append(state)

    def restore(self, state: LinkState) -> None:
        """Remove a fault that ``impair`` has added; others stay."""
        self._states.remove(state)
        self._changed.set()
        self._changed = asyncio.Event()

    async def passing(self, *, forward: bool) -> None:
        """Wait while a fault cuts a direction."""
        while not self.passes(forward=forward):
            await self._changed.wait()

    def passes(self, *, forward: bool) -> bool:
        """Return whether no fault cuts a direction."""
        return all(w.forward if forward else w.backward for w in self._states)

    def pause(self) -> float:
        """Return the seconds of delay of one chunk: latency, and retransmissions after losses."""
        if not self._states:
            return 0.0
        pause = max(state.delay for state in self._states)
        loss = max(state.loss for state in self._states)
        for resent in range(_DOUBLINGS):
            if self._chance() >= loss:
                break
            pause += _RESEND * 2**resent
        return pause


class Relay:
    """Forwards connections to an address; it listens on ``port`` from its creation on."""

    def __init__(
        self,
        target: str,
        tasks: TaskSet,
        chance: Callable[[], float],
        listen_host: str = "127.0.0.1",
    ) -> None:
        """Listen on a free port. target: "host:port"; chance: returns a random number in [0, 1)."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._tasks = tasks
        self.link = Link(chance)
        self._connections: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._listen_host = listen_host
        # Not port 0: Linux would free such a port in ``_refuse``.
        self.port = free_port(listen_host)
        self._socket = socket.create_server((listen_host, self.port), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._serving = tasks.start(self._serve(), f"relay to {target}", endless=True)

    @property
    def address(self) -> str:
        """The "host:port" to connect to instead of the target."""
        return f"{self._listen_host}:{self.port}"

    def reset(self) -> None:
        """Close all connections; new ones are accepted."""
        for connection in self._connections:
            connection.cancel()

    def close(self) -> None:
        """Close all connections and stop listening."""
        self._serving.cancel()
        self.reset()
        self._socket.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self._refusing:
                await self._until_target_listens()
                self._socket.listen(_BACKLOG)
                self._refusing = False
            await self.link.passing(forward=True)
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError:
                if self._refusing:
                    continue
                raise
            connection = self._tasks.start(self._join(client), "relayed connection")
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)

    async def _join(self, client: socket.socket) -> None:
        """Connect an accepted connection to the target, and pass bytes until either side closes."""
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=client)
            writers.append(writer)
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            writers.append(far_writer)
            # When one direction is closed, close both: gRPC does not use half-closed connections.
            await until_first_ends(
                {
                    "relay to the target": self._pump(reader, far_writer, forward=True),
                    "relay from the target": self._pump(far_reader, writer, forward=False),
                }
            )
        except ConnectionRefusedError:
            self._refuse()
        except OSError:
            pass
        finally:
            for open_writer in writers:
                open_writer.transport.abort()

    def _refuse(self) -> None:
        """Stop listening; the port stays reserved, so the kernel refuses connections."""
        # A second shutdown fails, but Linux notes it: accepted connections would be at their end.
        if self._refusing:
            return
        # Other systems than Linux do not permit this. Connections are accepted and closed there.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
            self._refusing = True

    async def _until_target_listens(self) -> None:
        """Wait until the target accepts a connection, or a fault cuts the link to it."""
        while self.link.passes(forward=True):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(*self._target)
                writer.transport.abort()
                return
            await asyncio.sleep(_LOOK_AGAIN)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, forward: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                await self.link.passing(forward=forward)
                if pause := self.link.pause():
                    await asyncio.sleep(pause)
                sink.write(data)
                await sink.drain()
            # A closed connection is not visible through a cut link either.
            await self.link.passing(forward=forward)
