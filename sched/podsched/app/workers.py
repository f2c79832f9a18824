"""Run several worker processes that serve the same addresses, and restart those that end.

    parent: reserve the addresses, start worker 0
       worker 0 is ready       --> start the others
       worker 0 ends before    --> end with its exit code
       a worker ends later     --> start it again, with backoff

The kernel passes each connection to one of the workers. They share only etcd, like API servers on
different machines. The parent serves no calls. It answers probes (ready if one worker is) and
metrics (of all workers, with a label for each), which it reads from the workers over sockets in a
directory that only the user can read. When the parent ends, even if it is killed, the workers end.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from podsched.app.process import Process
from podsched.app.supervisor import keep_running
from podsched.lib.processes import dying_with_parent, end_process
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tasks import TaskSet
from podsched.telemetry.health import Probe
from podsched.telemetry.logs import get_logger
from podsched.telemetry.merging import merged

_log = get_logger("workers")

#: Seconds between two probes of a worker, and for its answer.
_LOOK_EVERY, _ANSWER_WITHIN = 0.25, 2.0
#: Seconds after which a worker that was asked to end is killed; it drains for 5.
_GRACE: Final = 15.0


class Reserved:
    """An address that this process reserves for its workers, without accepting connections."""

    def __init__(self, address: str) -> None:
        """Reserve an address; port 0 picks a free one. Raises OSError if it is in use."""
        host, _, port = address.rpartition(":")
        name = host.strip("[]")
        family, kind, _, _, where = socket.getaddrinfo(
            name, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self._socket = socket.socket(family, kind)
        try:
            # First without SO_REUSEPORT: it fails if another program shares this port, which then
            # would get a part of the workers' connections.
            with socket.socket(family, kind) as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind(where)
                taken = alone.getsockname()
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._socket.bind(taken)
        except OSError as error:
            self._socket.close()
            why = error.strerror or str(error)
            raise OSError(f"cannot listen on {address}: {why}") from error
        self.address = f"{host}:{taken[1]}"

    def __enter__(self) -> Reserved:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


class _Ended(Exception):
    """A worker could not be started."""


class _Worker:
    """One worker process; a ``Part`` for ``keep_running``."""

    def __init__(self, index: int, arguments: Sequence[str], health: Path) -> None:
        self.index = index
        self.ready = False
        self._arguments = arguments
        self._health = health
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process. Raises _Ended."""
        self._health.unlink(missing_ok=True)
        command = [sys.executable, "-m", "podsched", *self._arguments]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *dying_with_parent(command), stdin=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            raise _Ended(f"worker {self.index} cannot be started: {error}") from error

    async def wait(self) -> str:
        """Wait until it ends; return how, as the end of a sentence."""
        code = await self.exit_code()
        self.ready = False
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    async def exit_code(self) -> int:
        """Wait until it ends; return its exit code, negative for the signal that killed it."""
        assert self._process is not None
        return await self._process.wait()

    async def look(self) -> None:
        """Update ``ready`` from its probe."""
        self.ready = await self.ask("/readyz") is not None

    async def ask(self, path: str) -> str | None:
        """Return the answer of its health server; None unless the status is 200."""
        timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN)
        connector = aiohttp.UnixConnector(str(self._health))
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(f"http://worker{path}") as answer,
            ):
                return await answer.text() if answer.status == 200 else None
        return None

    async def stop(self) -> int:
        """Ask it to end, and kill it if it does not; return its exit code."""
        if self._process is None:
            return 0
        if await end_process(self._process, _GRACE):
            _log.warning("A worker did not end: it was killed", worker=self.index)
        return await self.exit_code()


async def run_workers(
    process: Process, count: int, arguments: Callable[[int, Path], Sequence[str]]
) -> None:
    """Keep ``count`` workers running until the process is asked to stop.

    ``arguments``: returns the arguments of ``sched`` for a worker, given its number and the socket
    for its health server. If worker 0 ends before it is ready, the process ends with its exit code:
    the worker has logged why, and the others would fail, too.
    """
    directory = RunDirectory("workers")
    paths = [directory.path / f"{index}.sock" for index in range(count)]
    workers = [_Worker(n, arguments(n, path), path) for n, path in enumerate(paths)]
    process.checks.add(
        "workers",
        lambda: "" if any(worker.ready for worker in workers) else "no worker is ready",
        {Probe.READYZ, Probe.HEALTHZ},
    )
    tasks = TaskSet("workers")
    health = await process.serve_health(metrics=lambda _: _metrics(workers))
    _log.info("Workers serve", workers=count, health=health.url)
    try:
        tasks.start(_keep(process, workers), "keep workers")
        tasks.start(_look(workers), "look at workers", endless=True)
        tasks.start(process.end_when_asked(tasks), "wait for the stop")
        await tasks.run()
    finally:
        codes = await asyncio.gather(*(worker.stop() for worker in workers))
        await health.stop()
        directory.remove()
        # A worker that handles no signals yet is killed by SIGTERM: that is no failure.
        failed = any(code not in (0, -signal.SIGTERM) for code in codes)
        process.exit_code = process.exit_code or int(failed)


async def _keep(process: Process, workers: Sequence[_Worker]) -> None:
    """Start worker 0, then the others, and keep all running."""
    first = workers[0]
    await first.start()
    ended = asyncio.create_task(first.exit_code(), name="first worker")
    try:
        while not first.ready and not ended.done():
            await asyncio.wait([ended], timeout=_LOOK_EVERY)
            await first.look()
        if ended.done() and not first.ready:
            process.stop(ended.result() if ended.result() > 0 else 1)
            return
    finally:
        ended.cancel()
    for worker in workers[1:]:
        await worker.start()
    # Only now, so that nothing starts workers again if one of them cannot be started.
    tasks = TaskSet("running workers")
    for worker in workers:
        keeping = keep_running(f"worker {worker.index}", worker, _Ended, _log.warning)
        tasks.start(keeping, f"keep worker {worker.index}", endless=True)
    await tasks.run()


async def _look(workers: Sequence[_Worker]) -> None:
    while True:
        await asyncio.gather(*(worker.look() for worker in workers))
        await asyncio.sleep(_LOOK_EVERY)


async def _metrics(workers: Sequence[_Worker]) -> web.Response:
    texts = await asyncio.gather(*(worker.ask("/metrics") for worker in workers))
    named = {str(worker.index): text for worker, text in zip(workers, texts, strict=True) if text}
    content_type = "text/plain; version=0.0.4; charset=utf-8"
    return web.Response(
        body=merged(named, "worker").encode(), headers={"Content-Type": content_type}
    )
