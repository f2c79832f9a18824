"""TCP relays: every link between two processes leads through one, which can break it.

A cut relay acts like a cut cable: nothing is closed, new connections are not accepted, and sent
data waits. It arrives when the link is mended, however late, such as the writes of a former leader.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass

from podsched.lib.tasks import TaskSet

_CHUNK = 65536
#: Seconds after which TCP sends a lost segment again, at first; it doubles from time to time.
_RESEND, _DOUBLINGS = 0.2, 3


@dataclass(frozen=True, slots=True)
class LinkState:
    """What a link does to bytes.

    forth, back: whether they pass, from who connected and to him. delay: seconds for each chunk.
    loss: share of the chunks that TCP has to send again.
    """

    forth: bool = True
    back: bool = True
    delay: float = 0.0
    loss: float = 0.0


class Relay:
    """Forwards connections to an address; its ``port`` is taken at once."""

    def __init__(
        self,
        target: str,
        tasks: TaskSet,
        chance: Callable[[], float],
        listen_host: str = "127.0.0.1",
    ) -> None:
        """``target``: host:port; chance: returns a random number in [0, 1) each time."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._tasks = tasks
        self._chance = chance
        self._weathers: list[LinkState] = []
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._listen_host = listen_host
        self._socket = socket.create_server((listen_host, 0), backlog=128)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._serving = tasks.start(self._serve(), f"relay to {target}", endless=True)

    @property
    def address(self) -> str:
        """Where to connect to instead of to the target."""
        return f"{self._listen_host}:{self.port}"

    def strike(self, weather: LinkState) -> None:
        """Do this to bytes, too, until it is mended."""
        self._weathers.append(weather)

    def mend(self, weather: LinkState) -> None:
        """Take back a ``strike``; others stay."""
        self._weathers.remove(weather)
        self._changed.set()
        self._changed = asyncio.Event()

    def reset(self) -> None:
        """Close all connections; new ones are taken."""
        for connection in self._connections:
            connection.cancel()

    def close(self) -> None:
        """Close all connections and take no more."""
        self._serving.cancel()
        self.reset()
        self._socket.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._passing(forth=True)
            client, _ = await loop.sock_accept(self._socket)
            connection = self._tasks.start(self._join(client), "relayed connection")
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)

    async def _join(self, client: socket.socket) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=client)
            writers.append(writer)
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            writers.append(far_writer)
            # Once one direction is closed, gRPC has no use for the other one.
            pumps = (
                asyncio.ensure_future(self._pump(reader, far_writer, forth=True)),
                asyncio.ensure_future(self._pump(far_reader, writer, forth=False)),
            )
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # Nothing listens there: the process is down.
        finally:
            for open_writer in writers:
                open_writer.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, forth: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                await self._passing(forth=forth)
                if pause := self._pause():
                    await asyncio.sleep(pause)
                sink.write(data)
                await sink.drain()
            # What ends a connection does not pass either.
            await self._passing(forth=forth)

    async def _passing(self, *, forth: bool) -> None:
        while not all(w.forth if forth else w.back for w in self._weathers):
            await self._changed.wait()

    def _pause(self) -> float:
        if not self._weathers:
            return 0.0
        pause = max(weather.delay for weather in self._weathers)
        loss = max(weather.loss for weather in self._weathers)
        for resent in range(_DOUBLINGS):
            if self._chance() >= loss:
                break
            pause += _RESEND * 2**resent
        return pause
