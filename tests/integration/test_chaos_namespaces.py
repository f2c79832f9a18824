"""Replicas in namespaces of their own: their packets are lost, and nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.eventually import eventually_blocking
from support.processes import commands_mentioning

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(
        shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None,
        reason="network namespaces need the ip command",
    ),
]

_CHAOS = (sys.executable, "-m", "podsched", "chaos", "--namespaces")
_PACKETS = "drop-leader,drop-leader-sent,drop-leader-received,drop-standby,kill-unheard-leader"

#: Loses packets of an echo server in a namespace, and prints what a client has seen.
_ECHO = """
import asyncio, sys
from podsched.lab.chaos.namespaces import Namespaces, enter

SERVER = '''
import socket
server = socket.create_server(("0.0.0.0", 7000))
while True:
    client, _ = server.accept()
    while data := client.recv(100):
        client.sendall(data)
'''

async def hears(reader, within):
    try:
        async with asyncio.timeout(within):
            return (await reader.read(100)).decode()
    except TimeoutError:
        return "nothing"

async def connected(address):
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(address, 7000)
            writer.close()
            return "connected"
    except TimeoutError:
        return "no answer"

async def main():
    spaces = Namespaces(["a"])
    await spaces.make()
    command = [*spaces.launcher("a"), sys.executable, "-c", SERVER]
    server = await asyncio.create_subprocess_exec(*command)
    address = spaces.address("a")
    for _ in range(2000):
        try:
            reader, writer = await asyncio.open_connection(address, 7000)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
    writer.write(b"one")
    print(await hears(reader, 60))
    for sent in (True, False):
        await spaces.lose("a", sent=sent)
        await spaces.lose("a", sent=sent)
        await spaces.heal("a", sent=sent)
        writer.write(b"two")
        print(await hears(reader, 1), "/", await connected(address))
        await spaces.heal("a", sent=sent)
        print(await hears(reader, 120))
    server.kill()
    await server.wait()

enter()
asyncio.run(main())
"""


def test_lost_packets_are_neither_answered_nor_refused_and_sent_again_later() -> None:
    """In both directions; a second fault that ends does not end the first one."""
    done = subprocess.run(
        [sys.executable, "-c", _ECHO], capture_output=True, text=True, timeout=600, check=False
    )
    lost = ["nothing / no answer", "two"]
    assert (done.stdout.splitlines(), done.stderr) == (["one", *lost, *lost], "")


@pytest.mark.long
async def test_every_promise_is_kept_while_packets_are_lost(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *_CHAOS,
        *("--seed=1", "--minutes=0.6", f"--faults={_PACKETS}", f"--data-dir={tmp_path}", "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    outcome = json.loads(said)
    assert outcome["violations"] == []
    assert (outcome["complete"], outcome["faults_failed"]) == (True, 0)
    assert sum(outcome["faults"].values()) >= 3, outcome
    assert outcome["bound"] > 30, outcome


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_broken_off_leaves_no_process_and_no_device(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = _devices()
    command = [*_CHAOS, "--minutes=1", f"--data-dir={tmp_path}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        while "breaking" not in "".join(said[-1:]):
            said.append(process.stderr.readline())
            assert said[-1], "".join(said)
        inside = Path(f"/proc/{process.pid}/net/dev").read_text()
        assert len(re.findall(r"veth-\d", inside)) == 3
        assert _devices() == before
        process.send_signal(number)
        process.stderr.read()
    eventually_blocking("no process left", lambda: not commands_mentioning(str(tmp_path)))
    assert _devices() == before


def _devices() -> set[str]:
    return set(os.listdir("/sys/class/net")) | set(_listed(Path("/var/run/netns")))


def _listed(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.is_dir() else []
