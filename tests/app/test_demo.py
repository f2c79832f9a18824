"""The demo: what it prints for programs, what it judges, what it says when something fails."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from podsched.api.objects import Pod
from podsched.app.demo import (
    DemoFailed,
    DemoOptions,
    DemoReport,
    Leader,
    Observer,
    _judge,
    _submit,
    overcommitted,
)
from podsched.app.local_cluster import LocalCluster
from podsched.app.stored_state import StoredState
from podsched.client.api_client import ApiClient
from podsched.client.informer import Batch, Event, EventType
from podsched.v1 import api_pb2
from support.engine_world import container, node, pod

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
    out, err = await asyncio.wait_for(process.communicate(), 60)
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


# ---------------------------------------------------------------------- the judge


def placed(name: str, node_name: str, cpu: str = "1", phase: str = "Running") -> Pod:
    made = pod(name, {"nodeName": node_name, "containers": [container({"cpu": cpu})]})
    made.status.phase = phase
    made.metadata.owner_references.add(name="web")
    return made


def truth(*pods: Pod, cpu: str = "2", most: str = "3") -> StoredState:
    room = {"cpu": cpu, "memory": "1Gi", "pods": most}
    return StoredState(
        {f"default/{p.metadata.name}": p for p in pods}, {"n1": node("n1", allocatable=room)}
    )


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([placed("a", "n1"), placed("b", "n1")], []),
        ([placed("a", "n1"), placed("b", "n1", "1001m")], ["n1"]),
        ([placed("a", "n1", "2"), placed("b", "n1", "2", "Succeeded")], []),
        ([placed(name, "n1", "1m") for name in "abcd"], ["n1"]),
        ([placed("a", "nowhere")], ["nowhere"]),
        ([placed("a", "", "9")], []),
    ],
)
def test_a_node_is_overcommitted_when_its_live_pods_exceed_any_resource(
    pods: list[Pod], expected: list[str]
) -> None:
    assert overcommitted(truth(*pods)) == expected


def bound_to(observer: Observer, name: str, node_name: str) -> None:
    event = Event(EventType.MODIFIED, "Pod", f"default/{name}", None, placed(name, node_name))
    observer.handle(Batch(1, [event]))


def test_what_is_missing_in_etcd_is_lost_and_what_changed_its_node_was_bound_twice() -> None:
    observer, report = Observer(), DemoReport()
    bound_to(observer, "a", "n1")
    bound_to(observer, "a", "n2")
    bound_to(observer, "b", "n1")
    keys = [f"default/{name}" for name in "abcd"]
    _judge(report, keys, truth(placed("a", "n2"), placed("b", "n1"), placed("c", "")), observer)
    assert (report.pods, report.bound, report.lost, report.bound_twice) == (4, 2, 1, 1)
    assert not report.good


def test_a_report_is_good_only_when_every_pod_is_bound_once_within_capacity() -> None:
    assert DemoReport(pods=3, bound=3).good
    assert not DemoReport(pods=3, bound=2).good
    assert not DemoReport(pods=3, bound=3, bound_twice=1).good
    assert not DemoReport(pods=3, bound=3, overcommitted_nodes=1).good


# ---------------------------------------------------------------------- what fails


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
    observer = Observer()
    observer.leaders.append(Leader("scheduler-0_x", 7, 0.0))
    pods = [placed(f"p{i}", "") for i in range(50)]
    said: list[str] = []
    parts: tuple[Any, ...] = (
        cast(ApiClient, Client()),
        cast(LocalCluster, Cluster()),
        observer,
        pods,
    )
    with pytest.raises(DemoFailed, match="a new leader: not within 45 s"):
        await _submit(*parts, DemoOptions(), DemoReport(), said.append)
