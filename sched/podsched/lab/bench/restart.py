"""Measure how long a whole system (etcd, API server, replica) takes to restart and schedule.

A cluster with nodes, bound pods and a pending pod is stopped, and started again on its data
directory. Measured are the times until each part is ready, and until the pending pod is bound.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from podsched.lab.bench.cluster import BenchOptions, Progress, create_all, local_cluster, started
from podsched.lab.bench.failover import prepare
from podsched.lab.bench.shapes import copies, pod_template
from podsched.lib.network import free_port
from podsched.lib.tasks import in_background
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError

NODES, BOUND = 5000, 50_000
#: Seconds after which the waiting pod should be bound, and between two looks.
WITHIN, LOOK_EVERY = 120.0, 0.02


@dataclass(slots=True)
class RestartResult:
    """Seconds since the start of the first process."""

    nodes: int
    bound: int
    ready: float
    first_bound: float
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {"workload": "Restart", **asdict(self)}

    def lines(self) -> list[str]:
        return [
            f"Restart: {self.nodes:,} nodes, {self.bound:,} pods bound before",
            f"  etcd, the API server and the replica are ready after {self.ready:.2f} s",
            f"  the pod that was waiting is bound after {self.first_bound:.2f} s",
        ]


async def run_restart(
    nodes: int, bound: int, options: BenchOptions, progress: Progress
) -> RestartResult:
    """Run the benchmark. Raises ``ClientError``, ``ProcessFailed``, ``TimeoutError`` and others."""
    with tempfile.TemporaryDirectory(prefix="podsched-bench-") as directory:
        path = Path(directory)
        await _fill(path, nodes, bound, options, progress)
        began = time.monotonic()
        address = f"127.0.0.1:{free_port()}"
        async with (
            in_background(_bound_at(address), "await the binding") as waiting,
            started(local_cluster(options, path, address)),
        ):
            ready = time.monotonic() - began
            async with asyncio.timeout(WITHIN):
                first = await waiting - began
    return RestartResult(nodes, bound, round(ready, 3), round(first, 3))


async def _fill(
    path: Path, nodes: int, bound: int, options: BenchOptions, progress: Progress
) -> None:
    """Fill etcd's data directory: nodes, bound pods, and a pending pod."""
    async with (
        started(local_cluster(replace(options, replicas=0), path)) as cluster,
        ApiClient(cluster.server) as client,
    ):
        await prepare(client, nodes, bound, progress)
        await create_all(client, list(copies(pod_template(), "waiting", 1)))


async def _bound_at(address: str) -> float:
    """Return the time at which the pending pod is seen bound (monotonic)."""
    async with ApiClient(address) as client:
        while True:
            with suppress(ClientError):
                pod = await client.get("Pod", "waiting-0")
                if pod.spec.node_name:  # type: ignore[union-attr]
                    return time.monotonic()
            await asyncio.sleep(LOOK_EVERY)
