"""A Ray cluster on this machine, for ``sched up``, ``sched demo`` and tests.

The head runs as a process of its own (starting it inside a busy process timed out now and then),
listens on loopback alone, asks for a token, and never outlives the process that started it. Its
files are below a directory that only this user can enter: Ray itself opens them to everyone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from podsched.actors.ray_probe import answers
from podsched.lib.network import free_port
from podsched.lib.processes import dying_with_parent, session_members
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import TlsFiles

#: Ray's own name for "this machine only": node addresses resolve to 127.0.0.1 and every port
#: binds there.
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
#: Without it the head makes its first driver wait until as many workers as there are CPUs have
#: started, and in that driver no other thread runs meanwhile: 2 s on idle cores, for which a leader
#: neither renewed its lease nor answered (measured with 2.60; with it, joining stops nothing for
#: longer than 0.1 s).
NO_WAIT_FOR_WORKERS = {"RAY_prestart_worker_first_driver": "0"}
#: The actors exchange columns of a few hundred KB, so the smallest store Ray accepts is plenty.
OBJECT_STORE_BYTES = 80 * 1024 * 1024
START_ATTEMPTS = 3
#: What has ended is noticed at once; a machine with much else to do takes this long.
START_TIMEOUT = 120.0
#: Seconds between questions whether its processes answer, and to each answer.
PROBE_PERIOD, PROBE_TIMEOUT = 2.0, 5.0
#: Seconds without an answer after which a process is taken to hang: more than a busy machine makes
#: one wait, less than what Ray itself takes to give up a node.
HUNG_AFTER = 15.0
#: Longest to wait until the kernel has ended what was killed.
STOP_TIMEOUT = 5.0

#: Joins the cluster at the address and leaves it. In a process of its own, as a raylet that is not
#: ready makes ``ray.init`` end the process (seen with 2.60).
_JOIN = """
import logging, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
"""


class RayStartError(Exception):
    """The embedded Ray cluster did not come up; the scheduler goes on evaluating locally."""


class LocalRay:
    """The head of a local Ray cluster; drivers need its ``address`` and ``environment``."""

    def __init__(
        self, *, num_cpus: int = 2, log_dir: Path | None = None, tls: TlsFiles | None = None
    ) -> None:
        """``tls``: a certificate for servers and clients, shown and demanded by all of Ray."""
        self._tls = tls
        self._num_cpus = num_cpus
        self._log_dir = log_dir
        self._token = secrets.token_hex(32)
        self._process: asyncio.subprocess.Process | None = None
        self._directory: RunDirectory | None = None
        self._raylet = ""
        self.address = ""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a driver of this cluster needs in its environment; holds the token."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
            "RAY_USAGE_STATS_ENABLED": "0",
            **LOOPBACK_ONLY,
            **self._tls_environment,
        }

    @property
    def _tls_environment(self) -> Mapping[str, str]:
        if self._tls is None:
            return {}
        return {
            "RAY_USE_TLS": "1",
            "RAY_TLS_CA_CERT": self._tls.authorities,
            "RAY_TLS_SERVER_CERT": self._tls.certificate,
            "RAY_TLS_SERVER_KEY": self._tls.key,
        }

    @property
    def pid(self) -> int | None:
        """The head's process, which leads the session of all others; None when it has ended."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    @property
    def directory(self) -> Path | None:
        """Where its files are, None before the start and after the end."""
        return self._directory.path if self._directory else None

    async def start(self) -> None:
        """Start the head and wait until drivers can join it; again, it keeps its address.

        Raises:
            RayStartError: after three attempts, or where its files would not be safe.
        """
        if self._directory is None:
            # Ray puts Unix sockets below it, whose paths may not exceed 107 bytes: so not in a
            # data directory.
            try:
                self._directory = RunDirectory("ray")
            except OSError as exc:
                raise RayStartError(f"Ray was not started: {exc}") from exc
        port = int(self.address.rpartition(":")[2] or 0)
        problem = ""
        for _ in range(START_ATTEMPTS):
            await self.kill()
            self._directory.clear()
            try:
                await self._start_once(self._directory.path, port or free_port())
                return
            except (TimeoutError, RayStartError) as exc:
                problem = str(exc) or f"not ready after {START_TIMEOUT:.0f} s"
        await self.kill()
        raise RayStartError(f"Ray did not start on this machine: {problem}")

    async def _start_once(self, directory: Path, port: int) -> None:
        raylet = free_port()
        arguments = {
            "--port": port,
            "--node-manager-port": raylet,
            "--node-ip-address": "127.0.0.1",
            "--ray-client-server-port": free_port(),
            "--dashboard-agent-listen-port": free_port(),
            # A head without a dashboard looks for its port all the same.
            "--dashboard-port": free_port(),
            "--temp-dir": directory,
            "--num-cpus": self._num_cpus,
            "--object-store-memory": OBJECT_STORE_BYTES,
            "--include-dashboard": "false",
            "--include-log-monitor": "false",
        }
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += ["--disable-usage-stats", "--no-monitor"]
        command += [str(part) for pair in arguments.items() for part in pair]
        self._process = await self._run(command, NO_WAIT_FOR_WORKERS)
        async with asyncio.timeout(START_TIMEOUT):
            await self._until_listening(port, directory)
            while not await self._can_be_joined(f"127.0.0.1:{port}"):
                self._check_alive()
        self.address, self._raylet = f"127.0.0.1:{port}", f"127.0.0.1:{raylet}"

    async def _run(
        self, command: list[str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> asyncio.subprocess.Process:
        with self._output() as output:
            return await asyncio.create_subprocess_exec(
                *dying_with_parent(command),
                env={**os.environ, **self.environment, **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @contextlib.contextmanager
    def _output(self) -> Iterator[int]:
        target = self._log_dir / "ray.log" if self._log_dir else Path(os.devnull)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)

    async def _until_listening(self, port: int, directory: Path) -> None:
        """Wait for the head's port and for the socket of its raylet."""
        while True:
            self._check_alive()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                if await asyncio.to_thread(_has_raylet, directory):
                    return
            await asyncio.sleep(0.1)

    def _check_alive(self) -> None:
        assert self._process is not None
        if self._process.returncode is not None:
            raise RayStartError(f"the head exited with code {self._process.returncode}")

    async def _can_be_joined(self, address: str) -> bool:
        driver = await self._run([sys.executable, "-c", _JOIN, address])
        try:
            return await driver.wait() == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                driver.kill()

    async def wait(self) -> str:
        """Return how the head has ended; one that hangs is ended."""
        if self._process is None:
            return "ended"
        ended = asyncio.ensure_future(self._process.wait())
        try:
            return await self._until_hung(ended)
        finally:
            ended.cancel()

    async def _until_hung(self, ended: asyncio.Future[int]) -> str:
        loop = asyncio.get_running_loop()
        heard = dict.fromkeys((self.address, self._raylet), loop.time())
        while True:
            if (await asyncio.wait({ended}, timeout=PROBE_PERIOD))[0]:
                return "ended"
            for address in heard:
                if await answers(address, PROBE_TIMEOUT, self._tls):
                    heard[address] = loop.time()
            if loop.time() - min(heard.values()) > HUNG_AFTER:
                await self.kill()
                return f"has not answered for {HUNG_AFTER:.0f} s"

    async def stop(self) -> None:
        """End every process of the cluster and remove its files."""
        await self.kill()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    async def kill(self) -> None:
        """End every process of the cluster with SIGKILL; ``start`` may follow.

        On SIGTERM the head drains for up to 30 s, and no state in it is worth that. The head goes
        first, so that it starts nothing any more; then the rest until none is left: one that was
        just being started may not have been among the first found.
        """
        if self._process is None:
            return
        session = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._process = None
        give_up = asyncio.get_running_loop().time() + STOP_TIMEOUT
        while members := session_members(session):
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if asyncio.get_running_loop().time() > give_up:
                return
            await asyncio.sleep(0.02)


def _has_raylet(directory: Path) -> bool:
    return any(directory.glob("session_*/sockets/raylet"))
