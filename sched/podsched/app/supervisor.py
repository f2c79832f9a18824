"""Start, watch, restart and stop the child processes of a local cluster.

A process that ends unexpectedly is restarted with backoff. All children end with the parent, even
if it is killed. Not for production, where systemd or a container runtime does this.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from podsched.lib.backoff import Backoff
from podsched.lib.processes import end_process, send_signal, start_child
from podsched.lib.tasks import TaskSet
from podsched.lib.tls_contexts import ConnectingContext, TlsFiles

#: Seconds before a process that has ended is started again, at first and at most.
FIRST_RESTART_PAUSE = 0.2
LONGEST_RESTART_PAUSE = 5.0
#: Restarts after which ``wait_ready`` gives up.
RESTARTS_WHILE_STARTING = 2
#: Seconds after which ``wait_ready`` gives up: enough on a busy machine. It notices a process that
#: has ended before.
READY_WITHIN = 180.0
#: Seconds of running after which the backoff of restarts begins again.
STEADY_AFTER = 10.0
#: Seconds after which a process that was asked to end is killed.
GRACE = 5.0


class ProcessFailed(Exception):
    """A child process did not become ready; the message contains the end of its log."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs: by default on this machine, with loopback.

    host: the address on which it listens and is reached. launcher: the command, with an absolute
    path, that becomes the process. environment: additional variables.
    """

    host: str = "127.0.0.1"
    launcher: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The command of a process, and the port of its health server.

    program: an absolute path with its first arguments. arguments: of ``sched``.
    """

    name: str
    arguments: Sequence[str]
    health_port: int
    environment: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True
    tls: TlsFiles | None = None
    """A client's files for the health server; None: no TLS."""
    place: Place = Place()
    program: tuple[str, ...] = (sys.executable, "-m", "podsched")


class Part(Protocol):
    """A part of the cluster that starts its processes itself: the embedded etcd, or Ray."""

    async def start(self) -> None: ...
    async def wait(self) -> str:
        """Wait until it has ended; return how, as the end of a sentence: "ended"."""


async def keep_running(
    name: str,
    part: Part,
    fault: type[Exception],
    warn: Callable[[str], None],
    *,
    runs: bool = True,
    longest_pause: float = LONGEST_RESTART_PAUSE,
) -> None:
    """Start a part again, with backoff, whenever it ends, until cancelled.

    ``fault``: the error of its ``start``. ``warn``: gets a text about each end and each error.
    ``runs``: whether its first start has succeeded.
    """
    backoff = Backoff(FIRST_RESTART_PAUSE, longest_pause, random.random)
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        if runs:
            warn(f"{name} {await part.wait()}: starting it again")
            if loop.time() - began > STEADY_AFTER:
                backoff.reset()
        await asyncio.sleep(backoff.next_delay())
        try:
            await part.start()
            began, runs = loop.time(), True
        except fault as exc:
            warn(f"{exc}; trying again")
            runs = False


class HealthClient:
    """Asks the health server of a process."""

    def __init__(self, spec: ProcessSpec) -> None:
        self._spec = spec

    def session(self) -> aiohttp.ClientSession:
        """Return a session of HTTP with it."""
        tls = self._spec.tls
        context = ConnectingContext(tls, lambda _: None).latest() if tls else None
        address = f"{self._spec.place.host}:{self._spec.health_port}"
        return aiohttp.ClientSession(
            f"{'https' if tls else 'http'}://{address}",
            connector=aiohttp.TCPConnector(ssl=context or True),
            timeout=aiohttp.ClientTimeout(total=2),
        )

    async def metrics(self) -> str:
        """Return the text of /metrics; "" without an answer."""
        try:
            async with self.session() as session, session.get("/metrics") as answer:
                return await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return ""

    async def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels; 0.0 without an answer."""
        wanted = labels.items()
        return sum(
            sample.value
            for family in text_string_to_metric_families(await self.metrics())
            for sample in family.samples
            if sample.name == name and wanted <= sample.labels.items()
        )


class ManagedProcess:
    """One child process, kept running until ``stop``."""

    def __init__(self, spec: ProcessSpec, log_dir: Path, tasks: TaskSet) -> None:
        """``tasks``: the set that fails if watching the process fails."""
        self.spec = spec
        self._tasks = tasks
        self.log_path = log_dir / f"{spec.name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.may_restart = asyncio.Event()
        """While it is cleared, the process is not started again when it ends."""
        self.may_restart.set()
        self.health = HealthClient(spec)
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    @property
    def exit_code(self) -> int | None:
        """The exit code once the process has ended; negative: the signal that killed it."""
        return self._process.returncode if self._process is not None else None

    async def start(self) -> None:
        await self._spawn()
        self._watcher = self._tasks.start(self._watch(), f"watch {self.spec.name}")

    async def _spawn(self) -> None:
        place = self.spec.place
        command = [*place.launcher, *self.spec.program, *self.spec.arguments]
        environment = {**os.environ, **self.spec.environment, **place.environment}
        self._process = await start_child(command, self.log_path, environment)

    async def _watch(self) -> None:
        backoff = Backoff(FIRST_RESTART_PAUSE, LONGEST_RESTART_PAUSE, random.random)
        while True:
            assert self._process is not None
            began = time.monotonic()
            await self._process.wait()
            if not self.spec.restart:
                return
            if time.monotonic() - began > STEADY_AFTER:
                backoff.reset()
            await asyncio.sleep(backoff.next_delay())
            await self.may_restart.wait()
            self.restarts += 1
            await self._spawn()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process if it is running."""
        if self._process is not None:
            send_signal(self._process, number)

    async def wait_restarted(self, restarts: int, timeout: float = 30.0) -> None:
        """Wait until there were more than ``restarts`` restarts. Raises ProcessFailed."""
        deadline = time.monotonic() + timeout
        while self.restarts <= restarts:
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{self.spec.name} did not end and start again")
            await asyncio.sleep(0.05)

    async def wait_ready(self, timeout: float = READY_WITHIN) -> None:
        """Wait until /readyz answers 200.

        Raises:
            ProcessFailed: the process kept ending, or was not ready within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        most_restarts = self.restarts + RESTARTS_WHILE_STARTING
        async with self.health.session() as session:
            while time.monotonic() < deadline:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get("/readyz") as answer:
                        if answer.status == 200:
                            return
                ended = self.exit_code is not None and not self.spec.restart
                if ended or self.restarts > most_restarts:
                    break
                await asyncio.sleep(0.05)
        raise ProcessFailed(f"{self.spec.name} did not become ready:\n{self.log_tail()}")

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the process's log."""
        try:
            text = self.log_path.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(it has logged nothing)"

    async def stop(self, grace: float = GRACE) -> None:
        """Stop the process with SIGTERM, and with SIGKILL after ``grace`` seconds."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if self._process is not None:
            await end_process(self._process, grace)
