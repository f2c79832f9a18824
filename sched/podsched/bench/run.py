"""Runs a workload on real processes and measures its throughput.

Throughput is the number of measured pods divided by the time from the first one's creation until
the last one is bound, with the client, API server, etcd and scheduler all on this machine.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from podsched.api.objects import AnyObject, Pod, PriorityClass
from podsched.app.local_cluster import LocalCluster, LocalClusterOptions
from podsched.bench.disturbances import HIGH, Disturbance, Reference
from podsched.bench.pod_watch import BoundCounter, watching
from podsched.bench.processes import cpu_seconds, spent
from podsched.bench.results import BenchResult
from podsched.bench.shapes import copies, key_of
from podsched.bench.workloads import Workload, gated_template
from podsched.client.api_client import ApiClient
from podsched.client.errors import NotFound, of_result

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
    evaluator: str = "local"
    rate: float = 0.0
    """Pods created per second, each with a call of its own; 0: as the workload says."""
    fsync: bool = True
    timeout: float = 600.0
    agent_nodes: int = 0
    """Number of nodes that an agent plays; without, nothing starts the pods that are bound."""
    agent_node_pods: int = 110
    api_arguments: tuple[str, ...] = ()


@asynccontextmanager
async def bench_cluster(options: BenchOptions) -> AsyncIterator[LocalCluster]:
    """Run a cluster for the block. Raises ``ProcessFailed``, ``EmbeddedEtcdError``."""
    with tempfile.TemporaryDirectory(prefix="podsched-bench-") as directory:
        cluster = LocalCluster(
            LocalClusterOptions(
                data_dir=Path(directory),
                replicas=options.replicas,
                nodes=options.agent_nodes,
                node_pods=options.agent_node_pods,
                evaluator=options.evaluator,
                fsync=options.fsync,
                api_arguments=options.api_arguments,
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


async def run_workload(
    workload: Workload, options: BenchOptions, progress: Progress
) -> BenchResult:
    """Run a workload on a cluster of its own.

    Raises:
        ClientError, ProcessFailed, EmbeddedEtcdError.
    """
    progress("starting", 0, 1)
    async with bench_cluster(options) as cluster, ApiClient(cluster.server) as client:
        progress("starting", 1, 1)
        counter = BoundCounter()
        async with watching(client, counter):
            await prepare(client, counter, workload, options, progress)
            before = cpu_seconds(pids_of(cluster))
            result = await _clocked(client, counter, workload, options, progress)
            after = cpu_seconds(pids_of(cluster))
            result.cpu_us_per_pod = spent(before, after, workload.pods)
            return result


async def prepare(
    client: ApiClient,
    counter: BoundCounter,
    workload: Workload,
    options: BenchOptions,
    progress: Progress,
) -> None:
    """Create nodes, gated pods and initial pods; return when the initial pods are bound."""
    high = PriorityClass(value=10)
    high.metadata.name = HIGH
    await client.create(high)
    for start in range(0, workload.nodes, 500):
        numbers = range(start, min(start + 500, workload.nodes))
        await create_all(client, [workload.node_of(n) for n in numbers])
        progress("nodes", numbers.stop, workload.nodes)
    await create_all(client, list(copies(gated_template(), "gated", workload.gated)))
    if workload.objects_for is not None:
        await create_all(client, list(workload.objects_for(workload.pods)))
    first = list(copies(workload.first_template(), "first", workload.first))
    await create_all(client, first)
    await counter.wait_for(
        map(key_of, first),
        options.timeout,
        lambda n: progress("initial pods", n, workload.first),
    )


def measured_pods(workload: Workload) -> list[Pod]:
    """Return the pods that are measured."""
    if workload.pod_of is None:
        return list(copies(workload.template(), "measured", workload.pods))
    pods = [workload.pod_of(index) for index in range(workload.pods)]
    for index, pod in enumerate(pods):
        pod.metadata.name = f"measured-{index}"
    return pods


async def _create_pods(
    client: ApiClient,
    pods: Sequence[Pod],
    options: BenchOptions,
    rate: float,
    created: dict[str, float],
) -> None:
    if rate:
        await _create_at(client, pods, rate, created)
        return
    if options.create_mode == "batch":
        for start in range(0, len(pods), options.batch_size):
            part = pods[start : start + options.batch_size]
            now = time.monotonic()
            created.update((key_of(pod), now) for pod in part)
            for result in await client.create_pods(part):
                if (error := of_result(result)) is not None:
                    raise error
        return
    if options.create_mode == "stream":
        await _stream(client, pods, created)
        return
    source = iter(pods)

    async def one_after_another() -> None:
        for pod in source:
            created[key_of(pod)] = time.monotonic()
            await client.create(pod)

    await asyncio.gather(*(one_after_another() for _ in range(options.in_flight)))


async def _stream(client: ApiClient, pods: Sequence[Pod], created: dict[str, float]) -> None:
    async with client.submit_pods() as stream:
        answers = []
        for pod in pods:
            created[key_of(pod)] = time.monotonic()
            answers.append(await stream.submit(pod))
        for answer in answers:
            if (error := of_result(await answer)) is not None:
                raise error


async def _create_at(
    client: ApiClient, pods: Sequence[Pod], rate: float, created: dict[str, float]
) -> None:
    """Create ``rate`` pods per second, also while the calls of earlier ones are not answered."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as calls:
        for index, pod in enumerate(pods):
            await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
            created[key_of(pod)] = time.monotonic()
            calls.create_task(client.create(pod), name=f"create {pod.metadata.name}")


async def disturb(client: ApiClient, disturbance: Disturbance) -> None:
    """Carry out the disturbance's steps until cancelled."""
    began, tick = time.monotonic(), 0
    while True:
        step = disturbance.steps(tick)
        await create_all(client, step.create)
        await asyncio.gather(*(_delete(client, reference) for reference in step.delete))
        tick += 1
        await asyncio.sleep(max(0.0, began + tick * disturbance.period - time.monotonic()))


async def _delete(client: ApiClient, reference: Reference) -> None:
    kind, namespace, name = reference
    with suppress(NotFound):  # preempted, for example
        await client.delete(kind, name, namespace)


async def _clocked(
    client: ApiClient,
    counter: BoundCounter,
    workload: Workload,
    options: BenchOptions,
    progress: Progress,
) -> BenchResult:
    pods = measured_pods(workload)
    rate = options.rate or workload.rate
    created: dict[str, float] = {}
    keys = [key_of(pod) for pod in pods]
    disturbing = None
    began = time.monotonic()
    if workload.meanwhile is not None:
        disturbing = asyncio.create_task(disturb(client, workload.meanwhile), name="disturb")
    waiting = asyncio.create_task(
        counter.wait_for(
            keys, options.timeout, lambda n: progress("measured pods", n, workload.pods)
        ),
        name="wait",
    )
    await _create_pods(client, pods, options, rate, created)
    create_seconds = time.monotonic() - began
    await waiting
    if disturbing is not None:
        await _end(disturbing)
    bound = {key: counter.bound[key] for key in keys if key in counter.bound}
    seconds = max(bound.values(), default=time.monotonic()) - began
    latencies = sorted(at - created[key] for key, at in bound.items()) or [0.0]
    return BenchResult(
        workload=workload.name,
        nodes=workload.nodes,
        pods=workload.pods,
        bound=len(bound),
        create_mode=f"{rate:g} per second" if rate else options.create_mode,
        seconds=round(seconds, 3),
        pods_per_second=round(len(bound) / seconds, 1),
        create_seconds=round(create_seconds, 3),
        p50_seconds=round(latencies[len(latencies) // 2], 4),
        p99_seconds=round(latencies[len(latencies) * 99 // 100], 4),
        kube_scheduler=workload.kube_scheduler,
    )


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task; if it has failed, raise its error, because the result would be wrong."""
    if task.done():
        await task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
