"""Run a Ray cluster on this machine, for ``sched up``, ``sched demo`` and tests.

The head is a separate process, because starting it inside a busy process sometimes timed out. It
listens only on loopback, requires a token, and never outlives the process that started it. Its
files are in a directory that only this user can enter, because Ray makes them readable for all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from podsched.actors.ray_parts import RayParts
from podsched.actors.ray_probe import answers
from podsched.lib.backoff import Backoff
from podsched.lib.network import free_port
from podsched.lib.processes import session_members, session_processes, start_child
from podsched.lib.run_directory import RunDirectory
from podsched.lib.tls_contexts import TlsFiles

#: Ray's own name for "this machine only": node addresses resolve to 127.0.0.1 and every port
#: binds there.
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
HEAD_ENVIRONMENT = {
    # By default the first driver of a head waits until one worker per CPU has started, and no other
    # thread of the driver runs meanwhile. A leader then neither renewed its lease nor answered for
    # 2 s on idle cores (measured with 2.60). With this setting, joining blocks for at most 0.1 s.
    "RAY_prestart_worker_first_driver": "0",
    # Ray starts workers with niceness 15. On a busy machine they get a thirtieth of the leader's
    # processor time, so bindings and evaluations would wait for them.
    "RAY_worker_niceness": "0",
}
#: The actors exchange columns of a few hundred KB, so the smallest store Ray accepts is plenty.
OBJECT_STORE_BYTES = 80 * 1024 * 1024
START_ATTEMPTS = 3
#: Seconds before the second of them, and max seconds before another.
FIRST_START_PAUSE, LONGEST_START_PAUSE = 0.2, 2.0
#: Seconds for a start on a busy machine; a process that ends early is noticed at once.
START_TIMEOUT = 120.0
#: Seconds between two looks at the processes of a head that starts.
START_PROBE_PERIOD = 0.2
#: Seconds between probes of its processes, and the timeout of a probe.
PROBE_PERIOD, PROBE_TIMEOUT = 2.0, 5.0
#: Seconds without an answer after which a process counts as hung: longer than delays on a busy
#: machine, shorter than Ray's own timeout for a node.
HUNG_AFTER = 15.0
#: Max seconds until killed processes have ended.
STOP_TIMEOUT = 5.0

#: Joins the cluster at the address and leaves it. It runs in a separate process, because
#: ``ray.init`` ends its process if the raylet is not ready (seen with 2.60).
_JOIN = """
import logging, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
"""


class RayStartError(Exception):
    """The local Ray cluster did not start; the scheduler continues to evaluate locally."""


class LocalRay:
    """The head of a local Ray cluster; drivers need its ``address`` and ``environment``."""

    def __init__(
        self, *, num_cpus: int = 2, log_dir: Path | None = None, tls: TlsFiles | None = None
    ) -> None:
        """``tls``: the certificate that all processes of Ray use and require from each other."""
        self._tls = tls
        self._num_cpus = num_cpus
        self._log_dir = log_dir
        self._token = secrets.token_hex(32)
        self._process: asyncio.subprocess.Process | None = None
        self._directory: RunDirectory | None = None
        self._port = 0
        self._raylet = ""

    @property
    def address(self) -> str:
        """The head's address for drivers; "" before the first call of ``start``."""
        return f"127.0.0.1:{self._port}" if self._port else ""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables for drivers of this cluster; they contain the token."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
            "RAY_USAGE_STATS_ENABLED": "0",
            **LOOPBACK_ONLY,
            **_tls_environment(self._tls),
        }

    @property
    def pid(self) -> int | None:
        """The id of the head's process, which is the session leader; None if it has ended."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    async def start(self) -> None:
        """Start the head and wait until drivers can join.

        The address is final once the first call has ended, even if it failed, so that drivers can
        join after a later one. Raises RayStartError after three failed attempts, or if Ray's files
        would not be safe.
        """
        known = self._port
        self._port = known or free_port()
        if self._directory is None:
            # Not in a data directory: Ray puts Unix sockets there, whose paths may have at
            # most 107 bytes.
            try:
                self._directory = RunDirectory("ray")
            except OSError as exc:
                raise RayStartError(f"Ray was not started: {exc}") from exc
        problem = ""
        backoff = Backoff(FIRST_START_PAUSE, LONGEST_START_PAUSE, random.random)
        for attempt in range(START_ATTEMPTS):
            await self.kill()
            if attempt:
                await asyncio.sleep(backoff.next_delay())
                self._port = known or free_port()
            self._directory.clear()
            try:
                await self._start_once(self._directory.path, self._port)
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
        self._process = await self._run(command, HEAD_ENVIRONMENT)
        async with asyncio.timeout(START_TIMEOUT):
            await self._until_ready(self._process, port, directory)
        self._raylet = f"127.0.0.1:{raylet}"

    async def _run(
        self, command: list[str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> asyncio.subprocess.Process:
        log = self._log_dir / "ray.log" if self._log_dir else Path(os.devnull)
        return await start_child(command, log, {**os.environ, **self.environment, **environment})

    async def _until_ready(
        self, head: asyncio.subprocess.Process, port: int, directory: Path
    ) -> None:
        """Wait until drivers can join. Raises RayStartError once a process has ended."""
        joining = asyncio.ensure_future(self._until_joined(port, directory))
        parts = RayParts()
        try:
            while not (await asyncio.wait({joining}, timeout=START_PROBE_PERIOD))[0]:
                await _check_processes(head, parts)
            await joining
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)

    async def _until_joined(self, port: int, directory: Path) -> None:
        while True:
            if await _listens(port, directory):
                driver = await self._run([sys.executable, "-c", _JOIN, f"127.0.0.1:{port}"])
                try:
                    if await driver.wait() == 0:
                        return
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        driver.kill()
            await asyncio.sleep(0.1)

    async def wait(self) -> str:
        """Wait until the head has ended, and return how; a hung head is killed."""
        if self._process is None:
            return "ended"
        loop = asyncio.get_running_loop()
        last_seen = dict.fromkeys((self.address, self._raylet), loop.time())
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while True:
                if (await asyncio.wait({ended}, timeout=PROBE_PERIOD))[0]:
                    return "ended"
                for address in last_seen:
                    if await answers(address, PROBE_TIMEOUT, self._tls):
                        last_seen[address] = loop.time()
                if loop.time() - min(last_seen.values()) > HUNG_AFTER:
                    await self.kill()
                    return f"has not answered for {HUNG_AFTER:.0f} s"
        finally:
            ended.cancel()

    async def stop(self) -> None:
        """End every process of the cluster and remove its files."""
        await self.kill()
        if self._directory is not None:
            self._directory.remove()
            self._directory = None

    async def kill(self) -> None:
        """End every process of the cluster with SIGKILL; ``start`` may follow.

        On SIGTERM the head would drain for up to 30 s, but it has no state worth that. The head is
        killed first, so that it starts no more processes. The others are looked up until none is
        left, because one that is just starting may be missing in the first look-up.
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


def _tls_environment(tls: TlsFiles | None) -> Mapping[str, str]:
    if tls is None:
        return {}
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": tls.authorities,
        "RAY_TLS_SERVER_CERT": tls.certificate,
        "RAY_TLS_SERVER_KEY": tls.key,
    }


async def _listens(port: int, directory: Path) -> bool:
    """Return whether there are the head's port and the socket of its raylet."""

    def has_raylet() -> bool:
        return any(directory.glob("session_*/sockets/raylet"))

    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return await asyncio.to_thread(has_raylet)


async def _check_processes(head: asyncio.subprocess.Process, parts: RayParts) -> None:
    """Raise RayStartError if the head or a part of it has ended."""
    found = await asyncio.to_thread(session_processes, head.pid)
    # First, because the parts end with the head, and its exit code says more.
    if head.returncode is not None:
        raise RayStartError(f"the head exited with code {head.returncode}")
    if ended := parts.ended(found):
        raise RayStartError(f"{' and '.join(ended)} ended")
