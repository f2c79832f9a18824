"""Runs a workload on real processes and says what it reached.

Throughput is the measured pods divided by the time from the first measured pod's creation until
the last one is bound: creation, API server, etcd and scheduler all on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from podsched.api.objects import AnyObject, Pod, PriorityClass
from podsched.app.local_cluster import LocalCluster, LocalClusterOptions
from podsched.bench.workloads import Workload, copies, node
from podsched.client.api_client import ApiClient
from podsched.client.errors import of_result
from podsched.client.informer import Batch, Informer

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """create_mode: batch (``batch_size`` pods a call) or single (one call per pod,
    ``in_flight``)."""

    create_mode: str = "batch"
    batch_size: int = 100
    in_flight: int = 32
    replicas: int = 1
    evaluator: str = "local"
    fsync: bool = True
    timeout: float = 600.0


@dataclass(slots=True)
class BenchResult:
    """``seconds`` from the first creation to the last binding; latencies are creation to
    binding."""

    workload: str
    nodes: int
    pods: int
    bound: int
    create_mode: str
    seconds: float
    pods_per_second: float
    create_seconds: float
    p50_seconds: float
    p99_seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class BoundCounter:
    """Counts bound pods from a watch, with the time of each."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        self.changed = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        now = time.monotonic()
        for event in batch.events:
            pod = event.new
            if isinstance(pod, Pod) and pod.spec.node_name:
                self.bound.setdefault(event.key, now)
        self.changed.set()

    async def wait_for(
        self, keys: Iterable[str], within: float, progress: Callable[[int], None]
    ) -> None:
        """Waits until all keys are bound, ``within`` seconds at most."""
        left = set(keys)
        total = len(left)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    left.difference_update(self.bound)
                    progress(total - len(left))
                    if not left:
                        return
                    self.changed.clear()
                    await self.changed.wait()


async def create_all(client: ApiClient, objects: list[AnyObject], size: int = 500) -> None:
    """Creates objects in batches.

    Raises:
        ClientError: the first failure.
    """
    for start in range(0, len(objects), size):
        results = await client.create_many(objects[start : start + size])
        for result in results:
            if (error := of_result(result)) is not None:
                raise error


async def _create_pods(
    client: ApiClient, pods: list[Pod], options: BenchOptions, created: dict[str, float]
) -> None:
    if options.create_mode == "batch":
        for start in range(0, len(pods), options.batch_size):
            part = pods[start : start + options.batch_size]
            now = time.monotonic()
            created.update((f"{p.metadata.namespace}/{p.metadata.name}", now) for p in part)
            for result in await client.create_pods(part):
                if (error := of_result(result)) is not None:
                    raise error
        return
    source = iter(pods)

    async def one_after_another() -> None:
        for pod in source:
            created[f"{pod.metadata.namespace}/{pod.metadata.name}"] = time.monotonic()
            await client.create(pod)

    await asyncio.gather(*(one_after_another() for _ in range(options.in_flight)))


async def run_workload(
    workload: Workload, options: BenchOptions, progress: Progress
) -> BenchResult:
    """Starts a cluster, runs the workload and takes the cluster down.

    Raises:
        ClientError, ProcessFailed, EmbeddedEtcdError.
    """
    with tempfile.TemporaryDirectory(prefix="podsched-bench-") as directory:
        cluster = LocalCluster(
            LocalClusterOptions(
                data_dir=Path(directory),
                replicas=options.replicas,
                agent=False,
                evaluator=options.evaluator,
                fsync=options.fsync,
                # Nobody plays the nodes, so nobody sends their heartbeats.
                scheduler_arguments=("--node-monitor-grace-period=86400",),
            )
        )
        progress("starting", 0, 1)
        await cluster.start()
        progress("starting", 1, 1)
        try:
            return await _measure(cluster.server, workload, options, progress)
        finally:
            await cluster.stop()


async def _measure(
    server: str, workload: Workload, options: BenchOptions, progress: Progress
) -> BenchResult:
    counter = BoundCounter()
    async with ApiClient(server) as client:
        informer = Informer(client, ["Pod"])
        watching = asyncio.create_task(informer.run(counter.handle), name="watch pods")
        try:
            await informer.synced.wait()
            high = PriorityClass(value=10)
            high.metadata.name = "bench-high"
            await client.create(high)
            nodes = [node(i, workload.node_labels(i)) for i in range(workload.nodes)]
            for start in range(0, len(nodes), 500):
                await create_all(client, nodes[start : start + 500])
                progress("nodes", start + 500, len(nodes))
            first = list(copies(workload.first_template(), "first", workload.first))
            await create_all(client, list(first))
            await counter.wait_for(
                (f"{p.metadata.namespace}/{p.metadata.name}" for p in first),
                options.timeout,
                lambda n: progress("first pods", n, workload.first),
            )
            return await _clocked(client, counter, workload, options, progress)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def _clocked(
    client: ApiClient,
    counter: BoundCounter,
    workload: Workload,
    options: BenchOptions,
    progress: Progress,
) -> BenchResult:
    pods = list(copies(workload.template(), "measured", workload.pods))
    created: dict[str, float] = {}
    keys = [f"{p.metadata.namespace}/{p.metadata.name}" for p in pods]
    began = time.monotonic()
    creating = asyncio.create_task(_create_pods(client, pods, options, created), name="create")
    waiting = asyncio.create_task(
        counter.wait_for(
            keys, options.timeout, lambda n: progress("measured pods", n, workload.pods)
        ),
        name="wait",
    )
    await creating
    create_seconds = time.monotonic() - began
    await waiting
    bound = {key: counter.bound[key] for key in keys if key in counter.bound}
    seconds = max(bound.values(), default=time.monotonic()) - began
    latencies = sorted(at - created[key] for key, at in bound.items()) or [0.0]
    return BenchResult(
        workload=workload.name,
        nodes=workload.nodes,
        pods=workload.pods,
        bound=len(bound),
        create_mode=options.create_mode,
        seconds=round(seconds, 3),
        pods_per_second=round(len(bound) / seconds, 1),
        create_seconds=round(create_seconds, 3),
        p50_seconds=round(latencies[len(latencies) // 2], 4),
        p99_seconds=round(latencies[len(latencies) * 99 // 100], 4),
    )
