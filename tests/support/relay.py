"""A TCP relay that can swallow everything without closing a connection, as a cut cable does."""

from __future__ import annotations

import asyncio
import contextlib


class Relay:
    """Forwards connections to a port of this machine; while ``cut``, bytes wait and do not pass."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._passing = asyncio.Event()
        self._passing.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._passing.clear()

    def heal(self) -> None:
        self._passing.set()

    async def drop(self) -> None:
        """Close all connections; new ones are taken."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Close all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
        await self.drop()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passing.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    await self._passing.wait()
                    sink.write(data)
                    await sink.drain()
        finally:
            sink.close()
