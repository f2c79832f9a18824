"""The cluster of real processes that a benchmark runs on: everything is on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from podsched.api.objects import AnyObject
from podsched.app.local_cluster import LocalCluster, LocalClusterOptions
from podsched.client.api_client import ApiClient
from podsched.client.errors import of_result

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to run workloads."""

    create_mode: str = "batch"
    """batch: ``batch_size`` pods per call. single: one call per pod, ``in_flight`` at a time.
    stream: one message per pod on one stream."""
    batch_size: int = 500
    in_flight: int = 32
    replicas: int = 1
    api_servers: int = 1
    evaluator: str = "local"
    rate: float = 0.0
    """Pods created per second, each with a call of its own; 0: as the workload says."""
    fsync: bool = True
    timeout: float = 600.0
    agent_nodes: int = 0
    """Number of nodes that an agent plays; without, nothing starts the pods that are bound."""
    agent_node_pods: int = 110
    api_arguments: tuple[str, ...] = ()
    route: Callable[[str, str], str] = lambda _, address: address
    """From the name of a process and an address to that by which the process is to reach it."""


@asynccontextmanager
async def bench_cluster(options: BenchOptions) -> AsyncIterator[LocalCluster]:
    """Run a cluster for the block. Raises ``ProcessFailed``, ``EmbeddedEtcdError``."""
    with tempfile.TemporaryDirectory(prefix="podsched-bench-") as directory:
        cluster = LocalCluster(
            LocalClusterOptions(
                data_dir=Path(directory),
                replicas=options.replicas,
                api_servers=options.api_servers,
                nodes=options.agent_nodes,
                node_pods=options.agent_node_pods,
                evaluator=options.evaluator,
                fsync=options.fsync,
                api_arguments=options.api_arguments,
                route=options.route,
            )
        )
        await cluster.start()
        try:
            yield cluster
        finally:
            await cluster.stop()


def pids_of(cluster: LocalCluster) -> dict[str, int | None]:
    """Return the process IDs whose CPU time is measured, including this process."""
    named = {process.spec.name: process.pid for process in cluster.processes}
    return {**named, "etcd": cluster.etcd_pid, "bench": os.getpid()}


async def create_all(client: ApiClient, objects: Sequence[AnyObject], size: int = 500) -> None:
    """Create objects in batches.

    Raises:
        ClientError: the first failure.
    """
    for start in range(0, len(objects), size):
        for result in await client.create_many(objects[start : start + size]):
            if (error := of_result(result)) is not None:
                raise error
