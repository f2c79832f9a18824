"""A Ray cluster on this machine, for ``sched up``, ``sched demo`` and tests.

The head runs as a process of its own (starting it inside a busy process timed out now and then),
listens on loopback alone, asks for a token, and never outlives the process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from podsched.lib.network import free_port
from podsched.lib.processes import dying_with_parent, session_members

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
START_TIMEOUT = 40.0
#: Longest to wait until the kernel has ended what was killed.
STOP_TIMEOUT = 5.0


class RayStartError(Exception):
    """The embedded Ray cluster did not come up; the scheduler goes on evaluating locally."""


class LocalRay:
    """The head of a local Ray cluster; drivers need its ``address`` and ``environment``."""

    def __init__(self, *, num_cpus: int = 2, log_dir: Path | None = None) -> None:
        self._num_cpus = num_cpus
        self._log_dir = log_dir
        self._token = secrets.token_hex(32)
        self._process: asyncio.subprocess.Process | None = None
        # Ray puts Unix sockets below it, whose paths may not exceed 107 bytes: so not in a data
        # directory.
        self._temp_dir = Path(tempfile.mkdtemp(prefix="podsched-ray-"))
        self.address = ""

    @property
    def environment(self) -> Mapping[str, str]:
        """What a driver of this cluster needs in its environment; holds the token."""
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
            "RAY_USAGE_STATS_ENABLED": "0",
            **LOOPBACK_ONLY,
        }

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the head and wait until it takes connections.

        Raises:
            RayStartError: after three attempts.
        """
        problem = ""
        for _ in range(START_ATTEMPTS):
            try:
                await self._start_once()
                return
            except (TimeoutError, RayStartError) as exc:
                problem = str(exc) or f"not ready after {START_TIMEOUT:.0f} s"
                await self.kill()
        raise RayStartError(f"Ray did not start on this machine: {problem}")

    async def _start_once(self) -> None:
        port = free_port()
        arguments = {
            "--port": port,
            "--node-ip-address": "127.0.0.1",
            "--ray-client-server-port": free_port(),
            "--dashboard-agent-listen-port": free_port(),
            "--temp-dir": self._temp_dir,
            "--num-cpus": self._num_cpus,
            "--object-store-memory": OBJECT_STORE_BYTES,
            "--include-dashboard": "false",
            "--include-log-monitor": "false",
        }
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += ["--disable-usage-stats"]
        command += [str(part) for pair in arguments.items() for part in pair]
        with self._output() as output:
            self._process = await asyncio.create_subprocess_exec(
                *dying_with_parent(command),
                env={**os.environ, **self.environment, **NO_WAIT_FOR_WORKERS},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.address = f"127.0.0.1:{port}"
        async with asyncio.timeout(START_TIMEOUT):
            await self._until_listening(port)

    @contextlib.contextmanager
    def _output(self) -> Iterator[int]:
        target = self._log_dir / "ray.log" if self._log_dir else Path(os.devnull)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)

    async def _until_listening(self, port: int) -> None:
        assert self._process is not None
        while True:
            if self._process.returncode is not None:
                raise RayStartError(f"the head exited with code {self._process.returncode}")
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """End every process of the cluster and remove its files."""
        await self.kill()
        shutil.rmtree(self._temp_dir, ignore_errors=True)

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
