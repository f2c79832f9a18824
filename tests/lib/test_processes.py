"""Sessions of processes, and ports."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from podsched.lib.network import free_port
from podsched.lib.processes import dying_with_parent, send_signal, session_members
from support.eventually import PATIENCE, eventually_blocking


def test_a_free_port_can_be_listened_on() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell their range there")
def test_a_free_port_is_none_that_an_outgoing_connection_is_given() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if lowest < 32_768:
        pytest.skip("this machine gives connections lower ports than Linux does by itself")
    assert all(free_port() < lowest for _ in range(20))


def test_no_free_port_is_given_twice_in_a_row() -> None:
    assert len({free_port() for _ in range(20)}) == 20


def test_a_session_that_is_not_there_has_no_members() -> None:
    assert session_members(2**22 + 1) == []


@pytest.mark.integration
def test_a_sessions_members_are_its_live_processes() -> None:
    child = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
    try:
        assert session_members(child.pid) == [child.pid]
        child.send_signal(signal.SIGKILL)
        # No parent has waited for it: it is a zombie, and none of the living.
        eventually_blocking("its end", lambda: session_members(child.pid), [])
        assert os.getsid(child.pid) == child.pid
    finally:
        child.kill()
        child.wait()


@pytest.mark.integration
def test_a_command_whose_parent_is_gone_already_is_not_run() -> None:
    command = dying_with_parent([sys.executable, "-c", "print('ran')"])
    # Another parent than the one that made the command: as if that had died meanwhile.
    shell = ["/bin/sh", "-c", '"$@"; echo "exit $?"', "sh", *command]
    ended = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert ended.stdout == "exit 1\n"


@pytest.mark.integration
def test_a_command_becomes_the_program_itself() -> None:
    command = dying_with_parent([sys.executable, "-c", "import os; print(os.getpid())"])
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out, _ = child.communicate(timeout=PATIENCE)
    assert int(out) == child.pid


@pytest.mark.integration
async def test_a_signal_to_a_process_that_just_ended_leaves_its_exit_code_to_be_known() -> None:
    for _ in range(20):
        process = await asyncio.create_subprocess_exec("/bin/sleep", "60")
        send_signal(process, signal.SIGTERM)
        for _ in range(2000):
            send_signal(process, signal.SIGCONT)
        assert await process.wait() == -signal.SIGTERM
