"""The commands and the program of README.md, as a new user copies them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from podsched.app.local_cluster import LocalCluster
from support.commands import Commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.integration
def test_the_commands_work_in_their_order(
    sched: Commands, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SCHED_SERVER", cluster.server)
    section = README[README.index("## Use\n") : README.index("### From your own program")]
    commands = [
        shlex.split(line, comments=True) for line in re.findall(r"^    sched (.*)$", section, re.M)
    ]
    assert [command[0] for command in commands] == [
        "up", "apply", "get", "describe", "status", "top", "queues", "leader", "wait", "events",
        "explain", "simulate", "simulate", "capacity", "headroom", "get", "delete", "drain", "run",
    ]  # fmt: skip
    for command in commands[1:]:
        if command[0] == "leader":
            # The replica of this cluster has no other to hand over to.
            assert "no warm standby" in sched(*command).err
            continue
        sched.ok(*command)
        if command[0] == "apply":
            sched.until("Running", "get", "pods")
        if command[0] == "delete":
            # Pods take 30 s to end, which draining a node would wait for.
            sched.ok(*command, "--grace-period=0", "--ignore-not-found")
    sched.ok("uncordon", "node-0000")


@pytest.mark.integration
def test_the_program_creates_a_pod(sched: Commands, cluster: LocalCluster) -> None:
    program = re.findall(r"```python\n(.*?)```", README, re.S)[0]
    assert '"127.0.0.1:7443"' in program
    sched.ok(
        "delete", "pod", "web-0", "--grace-period", "0", "--ignore-not-found", "-s", cluster.server
    )
    program = program.replace("127.0.0.1:7443", cluster.server)
    subprocess.run([sys.executable, "-c", program], check=True)
    sched.until("Running", "get", "pod", "web-0", "-s", cluster.server)
