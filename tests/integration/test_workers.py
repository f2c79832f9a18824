"""Several processes behind the addresses of one API server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from podsched.api.objects import Node
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.lab.bench.shapes import pod_template
from podsched.lib.network import free_port
from podsched.lib.processes import session_members
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, Unavailable
from podsched.v1.scheduling_pb2 import ExplainRequest
from support.eventually import PATIENCE, eventually

pytestmark = pytest.mark.integration


def workers_of(cluster: LocalCluster) -> dict[str, int]:
    """The process IDs of the API server's workers, by their number."""
    return dict(_workers(cluster.api_servers[0].pid))


def _workers(parent: int | None) -> Iterator[tuple[str, int]]:
    for pid in session_members(parent) if parent else ():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        except OSError:  # it has just ended
            continue
        if found := re.search(r"--as-worker=(\d+)/", command):
            yield found[1], pid


async def test_calls_go_on_when_a_worker_is_killed_and_nothing_is_left_in_the_end(
    tmp_path: Path,
) -> None:
    options = LocalClusterOptions(
        tmp_path,
        replicas=1,
        agent=False,
        evaluator="local",
        fsync=False,
        api_arguments=("--workers=2",),
        grace=PATIENCE,
    )
    cluster = LocalCluster(options)
    await cluster.start()
    session = cluster.api_servers[0].pid
    assert session is not None
    try:
        async with ApiClient(cluster.server) as client:
            await fill(client)
        await eventually("calls to both", lambda: both_serve(cluster))
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(ApiClient(cluster.server)) for _ in range(8)]
            await eventually(
                "the replica answers through each", lambda: unexplained(clients), wanted=[]
            )

            before = workers_of(cluster)
            os.kill(before["0"], signal.SIGKILL)
            for number in range(40):
                await create(clients[number % 8], f"p{number}")

            async def all_bound() -> bool:
                pods = (await clients[0].list("Pod")).items
                return sum(bool(pod.spec.node_name) for pod in pods) >= 40

            await eventually("all pods are bound", all_bound)
            await eventually("the worker is back", lambda: len(workers_of(cluster)) == 2)
            after = workers_of(cluster)
            assert after["1"] == before["1"]
            assert after["0"] != before["0"]
            await eventually(
                "the replica finds the new one", lambda: unexplained(clients), wanted=[]
            )
    finally:
        await cluster.stop()
    assert cluster.api_servers[0].exit_code == 0
    assert not session_members(session)


async def fill(client: ApiClient) -> None:
    """A node, and a pod that does not fit there."""
    node = Node(metadata={"name": "n1"})
    for name, amount in (("cpu", "100"), ("memory", "100Gi"), ("pods", "500")):
        node.status.allocatable[name] = amount
    await client.create(node)
    large = pod_template(cpu="1000")
    large.metadata.name = "large"
    await client.create(large)


async def create(client: ApiClient, name: str) -> None:
    """Create a pod; repeat the call as long as its outcome is unknown.

    A killed worker resets calls that it has, and connections that it has not accepted yet.
    """
    pod = pod_template()
    pod.metadata.name = name

    async def is_there() -> bool:
        try:
            await client.create(pod)
        except Unavailable:
            return False
        except AlreadyExists:
            pass
        return True

    await eventually(f"{name} is created", is_there)


async def both_serve(cluster: LocalCluster) -> bool:
    """Whether both workers have answered lists; a connection stays with one of them."""
    async with ApiClient(cluster.server) as client:
        await client.list("Node")
    metric = cluster.api_servers[0].health.metric
    calls = [await metric("apiserver_request_total", worker=n, verb="List") for n in "01"]
    return min(calls) > 0


async def unexplained(clients: list[ApiClient]) -> list[str]:
    """What is answered instead where the replica cannot be asked on a client's connection."""
    asked = (client.explain(ExplainRequest(name="large"), timeout=20) for client in clients)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    return [repr(answer) for answer in answers if isinstance(answer, BaseException)]


def test_what_keeps_the_first_worker_from_starting_is_told_once() -> None:
    nowhere = f"--etcd-endpoints=127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "podsched", "apiserver", nowhere, "--listen=127.0.0.1:0"]
    ended = subprocess.run(
        [*command, "--workers=3"], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.count("no etcd endpoint") == 1
    assert "Traceback" not in ended.stderr
