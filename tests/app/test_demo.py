"""The demo: its JSON report, and its error when a step times out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from podsched.api.objects import Pod
from podsched.app.demo import Demo
from podsched.app.demo_observer import DemoFailed, Leader
from podsched.app.local_cluster import LocalCluster
from podsched.serve.client.api_client import ApiClient
from podsched.v1 import api_pb2
from support.demo_world import placed
from support.eventually import PATIENCE

FIELDS = {
    "nodes": int,
    "pods": int,
    "bound": int,
    "lost": int,
    "bound_twice": int,
    "overcommitted_nodes": int,
    "seconds": float,
    "leaders": list,
    "kills": list,
}


@pytest.mark.long
@pytest.mark.integration
async def test_the_demo_prints_one_line_of_json_and_leaves_nothing_running() -> None:
    began = time.time()
    mark = f"PODSCHED_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = mark.partition("=")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "podsched", "demo", "--json", "--evaluator", "local"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, name: value},
    )
    out, err = await asyncio.wait_for(process.communicate(), 5 * PATIENCE)
    assert process.returncode == 0, err.decode()
    [line] = out.decode().splitlines()
    report = json.loads(line)
    assert {key: type(found) for key, found in report.items()} == FIELDS
    assert report["nodes"] == 14
    assert report["bound"] == report["pods"] > 100
    assert report["lost"] == report["bound_twice"] == report["overcommitted_nodes"] == 0
    first, second = report["leaders"]
    assert set(first) == {"identity", "term", "since"}
    assert first["term"] < second["term"]
    assert began < first["since"] < second["since"] < time.time()
    [kill] = report["kills"]
    assert kill["signal"] == "SIGKILL"
    assert kill["identity"] == first["identity"] != second["identity"]
    assert 0 < kill["gap_seconds"] < 15
    assert not _with_environment(mark)


def _with_environment(mark: str) -> list[str]:
    """The processes that were started with this in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


class Client:
    async def create_pods(self, pods: Sequence[Pod]) -> list[api_pb2.BatchResult]:
        return [api_pb2.BatchResult()] * len(pods)


class Replica:
    def kill(self, number: int) -> None:
        return


class Cluster:
    def replica_of(self, identity: str) -> Replica:
        return Replica()


@pytest.mark.looptime
async def test_a_leader_that_is_not_replaced_in_time_is_said_in_one_line() -> None:
    said: list[str] = []
    demo = Demo(cast(LocalCluster, Cluster()), said.append)
    demo.observer.leaders.append(Leader("scheduler-0_x", 7, 0.0))
    pods = [placed(f"p{i}", "") for i in range(50)]
    with pytest.raises(DemoFailed, match="timed out after 45 s waiting for a new leader"):
        await demo.submit(cast(ApiClient, Client()), pods)
    assert said == ["Killed the leader, scheduler-0_x, with SIGKILL; still submitting pods"]
