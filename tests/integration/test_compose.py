"""The commands of docker-compose.yml and their health checks, as processes of this machine.

Host names and ports become those of loopback, and directories of the images those of the test; all
else is as it stands there: certificates, their files, and which service is given which.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.lib.network import free_port
from podsched.lib.processes import dying_with_parent
from podsched.serve.store.embedded import find_etcd
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).parents[2].joinpath("docker-compose.yml").read_text()
)["services"]
ADDRESS = re.compile(r"\b([a-z]+-\d|0\.0\.0\.0|127\.0\.0\.1):(\d+)")
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i}]}
"""


class Compose:
    """Runs services of the file below a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports: defaultdict[tuple[str, str], int] = defaultdict(free_port)

    def here(self, service: str, text: str) -> str:
        """Return what an argument or a variable of a service is on this machine."""

        def address(found: re.Match[str]) -> str:
            host = found[1] if found[1] in SERVICES else service
            return f"127.0.0.1:{self._ports[host, found[2]]}"

        text = ADDRESS.sub(address, text)
        for folder in ("/var/lib/etcd", "/var/lib/podsched"):
            text = text.replace(folder, str(self._directory / service))
        return text.replace("/certs", str(self._directory / "certs"))

    def command(self, service: str, words: list[str]) -> list[str]:
        """Return what runs in place of a service's words."""
        binaries = find_etcd().parent
        first = {
            "etcd": [str(binaries / "etcd")],
            "etcdctl": [str(binaries / "etcdctl")],
            "python": [sys.executable],
        }.get(words[0], [sys.executable, "-m", "podsched", words[0]])
        return [*first, *(self.here(service, word) for word in words[1:])]

    def environment(self, service: str) -> dict[str, str]:
        given = SERVICES[service].get("environment", {})
        own = {k: self.here(service, v) for k, v in given.items() if "$" not in v}
        return {**os.environ, **own}

    def run(
        self, service: str, words: list[str], stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in place of a service's."""
        return subprocess.run(
            self.command(service, words),
            env=self.environment(service),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    async def start(self, service: str, stack: AsyncExitStack) -> None:
        """Start a service and wait until its health check passes."""
        log = stack.enter_context((self._directory / f"{service}.log").open("w+"))
        process = await asyncio.create_subprocess_exec(
            *dying_with_parent(self.command(service, SERVICES[service]["command"])),
            env=self.environment(service),
            stdout=log,
            stderr=log,
        )

        async def stop() -> None:
            if process.returncode is None:
                process.terminate()
            await process.wait()

        stack.push_async_callback(stop)

    async def healthy(self, service: str) -> None:
        test = SERVICES[service]["healthcheck"]["test"]
        assert test[0] == "CMD", "there is no shell"

        async def passes() -> bool:
            return (await asyncio.to_thread(self.run, service, test[1:])).returncode == 0

        await eventually(f"{service} is healthy", passes, within=3 * PATIENCE, pause=0.5)


async def test_the_services_find_their_certificates_and_work_together(tmp_path: Path) -> None:
    compose = Compose(tmp_path)
    made = compose.run("certs", SERVICES["certs"]["command"])
    assert made.returncode == 0, made.stderr
    members = ["etcd-0", "etcd-1", "etcd-2"]
    async with AsyncExitStack() as stack:
        for services in (members, ["apiserver-0"], ["scheduler-0", "agent"]):
            for service in services:
                await compose.start(service, stack)
            for service in services:
                await compose.healthy(service)

        def sched(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
            return compose.run("sched", list(words), stdin)

        await eventually("applied", lambda: sched("apply", "-f", "-", stdin=POD).returncode, 0)
        await eventually("Running", lambda: "Running" in sched("get", "pod", "web").stdout)
        await eventually(
            "status of health, and of etcd's members",
            lambda: sched("status").stdout.count("https://127.0.0.1:") >= 4,
        )
