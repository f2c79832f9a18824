"""Carry out the operations of a workload and measure its pods.

The clock starts with the first measured pod's creation and stops when the last one is bound.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from podsched.actors.local_ray import LocalRay
from podsched.api.objects import (
    ClusterQueue,
    LocalQueue,
    Node,
    Pod,
    PodGroup,
    ResourceClaim,
    key_of,
)
from podsched.app.local_cluster import LocalCluster
from podsched.lab.bench import ops
from podsched.lab.bench.cluster import (
    Bench,
    BenchOptions,
    CreatePod,
    PodCreation,
    Progress,
    bench,
    create_all,
    creating,
)
from podsched.lab.bench.processes import Usage, spent, usage_of_session
from podsched.lab.bench.results import BenchResult, percentile, timeline
from podsched.lab.bench.verify import claim_violations, quota_violations, unbound, violations
from podsched.lib.tasks import task_group
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound

T = TypeVar("T")

#: Cumulative counts of a histogram by the upper bounds of its buckets.
Buckets = Mapping[float, float]


class Lags(NamedTuple):
    """Histograms of an event loop's lag, and of the part that the process may have caused."""

    all: Buckets = MappingProxyType({})
    own: Buckets = MappingProxyType({})


def lags_in(metrics: str) -> Lags:
    """Return the histograms in a text of metrics; empty if there are none."""
    buckets: dict[str, dict[float, float]] = {
        f"podsched_event_loop_{name}seconds_bucket": {} for name in ("lag_", "own_lag_")
    }
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in buckets:
                buckets[sample.name][float(sample.labels["le"])] = sample.value
    return Lags(*buckets.values())


def longest_ms(before: Buckets, after: Buckets) -> float:
    """Return an upper bound, in milliseconds, of all lags between two readings.

    Lags above the largest finite bound (3 s) count as that; 0 without any.
    """
    counts = {bound: count - before.get(bound, 0.0) for bound, count in sorted(after.items())}
    samples = counts.pop(math.inf, 0.0)
    if not samples:
        return 0.0
    bounds = (bound for bound, count in counts.items() if count >= samples)
    return round(next(bounds, max(counts, default=0.0)) * 1000, 1)


async def read_lags(cluster: LocalCluster) -> dict[str, Lags]:
    """Return the histograms of all processes that answer and have one."""
    names = [process.spec.name for process in cluster.processes]
    texts = await asyncio.gather(*(process.health.metrics() for process in cluster.processes))
    read = {name: lags_in(text) for name, text in zip(names, texts, strict=True)}
    return {name: lags for name, lags in read.items() if lags.all}


#: Nodes and pods made and sent at once where nothing is measured.
_PART = 5000
#: What an evaluator actor's process is called, and seconds for it to start and to load its code.
_ACTOR = "ray::EvaluatorActor"
_ACTORS_WITHIN, _ACTORS_SETTLE = 60.0, 3.0


async def run_workload(
    workload: ops.Workload, options: BenchOptions, progress: Progress
) -> BenchResult:
    """Run a workload on its own cluster, and check the result.

    Raises ClientError, ProcessFailed or EmbeddedEtcdError.
    """
    async with running(options, progress) as runner:
        await runner.carry_out(workload.ops)
        result = runner.result(workload)
        result.problems += await runner.verify()
        return result


@asynccontextmanager
async def running(options: BenchOptions, progress: Progress) -> AsyncIterator[Runner]:
    """Run a cluster with a ``Runner`` for the block.

    Raises ClientError, ProcessFailed or EmbeddedEtcdError.
    """
    async with bench(options, progress) as run, creating(run.cluster, run.client) as create_pod:
        yield Runner(run, create_pod, options, progress)


@dataclass(slots=True)
class Measurement:
    """What is measured; times are monotonic."""

    began: float = 0.0
    created_by: float = 0.0
    mode: str = ""
    created: dict[str, float] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Keys of measured pods, by the key of their pod group."""
    usage: dict[str, Usage] = field(default_factory=dict)
    usage_after: dict[str, Usage] = field(default_factory=dict)
    lags: dict[str, Lags] = field(default_factory=dict)
    lags_after: dict[str, Lags] = field(default_factory=dict)


class Runner:
    """Carries out operations on a running cluster; ``measured`` has the measurements."""

    def __init__(
        self, bench: Bench, create_pod: CreatePod, options: BenchOptions, progress: Progress
    ) -> None:
        """``create_pod`` creates pods that have their own call."""
        self._bench = bench
        self._cluster, self._client = bench.cluster, bench.client
        self._creation = PodCreation(self._client, create_pod, options)
        self._options = options
        self._progress = progress
        self._expected: list[str] = []
        self._background: list[asyncio.Task[None]] = []
        self.measured = Measurement()

    async def carry_out(self, operations: Iterable[ops.Op]) -> None:
        """Carry out operations in turn; those in the background end with the last one.

        Raises ClientError.
        """
        try:
            for op in operations:
                await self._carry_out(op)
        finally:
            await self._end_background()

    async def _carry_out(self, op: ops.Op) -> None:
        match op:
            case ops.CreateNodes():
                await self._create_nodes(op)
            case ops.CreatePods():
                await (self._measure(op) if op.measured else self._create_pods(op))
            case ops.CreateAny():
                await create_all(self._client, list(op.objects()))
            case ops.CreateResourceDriver():
                await create_all(self._client, list(op.slices()))
            case ops.Churn():
                self._start(_churn(self._client, op), "churn")
            case ops.DeletePods() if op.skip_wait_to_completion:
                self._start(_delete_pods(self._client, op, self._options.timeout), "delete pods")
            case ops.DeletePods():
                await _delete_pods(self._client, op, self._options.timeout)
            case ops.Barrier():
                await self._wait_until_bound(self._expected, "barrier")
            case ops.Sleep():
                await asyncio.sleep(op.duration)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._background.append(asyncio.create_task(work, name=name))

    async def _end_background(self) -> None:
        """Cancel tasks; if one has failed, raise its error, because the result would be wrong."""
        for task in self._background:
            if not task.done():
                task.cancel()
        ended = await asyncio.gather(*self._background, return_exceptions=True)
        self._background.clear()
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _create_nodes(self, op: ops.CreateNodes) -> None:
        for start in range(0, op.count, _PART):
            await create_all(self._client, op.nodes(start, start + _PART))
            self._progress("nodes", min(start + _PART, op.count), op.count)

    async def _create_pods(self, op: ops.CreatePods) -> None:
        keys: list[str] = []
        for start in range(0, op.count, _PART):
            pods = op.pods(start, start + _PART)
            await self._creation.create(pods, op.rate, {})
            self.measured.created_by = time.monotonic()
            keys += [key_of(pod) for pod in pods if not pod.spec.scheduling_gates]
            self._progress("created pods", min(start + _PART, op.count), op.count)
        self._expected += keys
        if op.wait:
            await self._wait_until_bound(keys, "initial pods")

    async def _measure(self, op: ops.CreatePods) -> None:
        pods = op.pods(0, op.count)
        measured, rate = self.measured, self._options.rate or op.rate
        if not measured.created:
            ray = self._cluster.ray
            if ray is not None and self._options.evaluator == "ray":
                await _wait_for_actors(ray)
            measured.mode = f"{rate:g} per second" if rate else self._options.create_mode
            measured.lags = await read_lags(self._cluster)
            measured.usage = self._bench.usage()
            measured.began = time.monotonic()
        keys = [key_of(pod) for pod in pods]
        for pod in pods:
            if group := pod.spec.scheduling_group.pod_group_name:
                measured.members[f"{pod.metadata.namespace}/{group}"].append(key_of(pod))
        self._expected += keys

        async def create() -> None:
            await self._creation.create(pods, rate, measured.created)
            measured.created_by = time.monotonic()

        async with task_group() as tasks:
            tasks.create_task(create(), name="create")
            if op.wait:
                await self._wait_until_bound(keys, "measured pods")
        if not op.wait:
            await self._read_after()

    async def _wait_until_bound(self, keys: Sequence[str], stage: str) -> None:
        def progress(bound: int) -> None:
            self._progress(stage, bound, len(keys))

        await self._bench.pods.wait_for(keys, self._options.timeout, progress)
        if self.measured.created:
            await self._read_after()

    async def _read_after(self) -> None:
        self.measured.usage_after = self._bench.usage()
        self.measured.lags_after = await read_lags(self._cluster)

    def result(self, workload: ops.Workload) -> BenchResult:
        """Return the figures of the pods that were measured."""
        measured, bound_at = self.measured, self._bench.pods.bound
        bound = {key: bound_at[key] for key in measured.created if key in bound_at}
        seconds = max(bound.values(), default=time.monotonic()) - measured.began
        latencies = [at - measured.created[key] for key, at in bound.items()]
        lags = [(n, measured.lags.get(n, Lags()), lag) for n, lag in measured.lags_after.items()]
        return BenchResult(
            workload=workload.name,
            nodes=workload.nodes,
            pods=len(measured.created),
            bound=len(bound),
            create_mode=measured.mode or self._options.create_mode,
            seconds=round(seconds, 3),
            pods_per_second=round(len(bound) / seconds, 1) if bound else 0.0,
            create_seconds=round(measured.created_by - measured.began, 3) if bound else 0.0,
            p50_seconds=round(percentile(latencies, 50), 4),
            p99_seconds=round(percentile(latencies, 99), 4),
            cpu_us_per_pod=spent(measured.usage, measured.usage_after, len(measured.created)),
            kube_scheduler=workload.kube_scheduler,
            memory_mb={n: round(used.memory / 1e6, 1) for n, used in measured.usage_after.items()},
            longest_lag_ms={n: longest_ms(before.all, after.all) for n, before, after in lags},
            longest_own_lag_ms={n: longest_ms(before.own, after.own) for n, before, after in lags},
            backend="kubernetes" if self._options.through_kube else "podsched",
            gangs=sum(all(key in bound for key in keys) for keys in measured.members.values()),
            timeline=timeline([at - measured.began for at in bound.values()]),
        )

    async def verify(self) -> list[str]:
        """Return problems with the state after all operations. Raises ClientError."""
        client, seen = self._client, self._bench.pods
        pods, queues = await _all(client, Pod), await _all(client, ClusterQueue)
        local_queues = await _all(client, LocalQueue)
        return [
            *unbound(self._expected, seen.bound),
            *violations(await _all(client, Node), pods, deleted=seen.deleted > 0),
            *claim_violations(await _all(client, ResourceClaim), pods),
            *quota_violations(queues, local_queues, await _all(client, PodGroup), pods),
        ]


async def _wait_for_actors(ray: LocalRay) -> None:
    """Wait until the evaluator actors have started, so that their start is not measured."""
    # Without actors, nodes are evaluated locally.
    deadline = time.monotonic() + _ACTORS_WITHIN
    while time.monotonic() < deadline:
        await asyncio.sleep(_ACTORS_SETTLE)
        if _ACTOR in usage_of_session(ray.pid):
            return


async def _churn(client: ApiClient, op: ops.Churn) -> None:
    began, tick = time.monotonic(), 0
    while True:
        step = op.step(tick)
        await create_all(client, step.create)
        await asyncio.gather(*(_delete(client, one) for one in step.delete))
        tick += 1
        await asyncio.sleep(max(0.0, began + tick * op.period - time.monotonic()))


async def _delete_pods(client: ApiClient, op: ops.DeletePods, timeout: float) -> None:
    if not op.delete_pods_per_second:
        await client.delete_collection(
            "Pod", op.namespace, label_selector=op.label_selector, timeout=timeout
        )
        return
    found = await client.list("Pod", op.namespace, label_selector=op.label_selector)
    began = time.monotonic()
    async with task_group() as calls:
        for index, item in enumerate(found.items):
            await asyncio.sleep(
                max(0.0, began + index / op.delete_pods_per_second - time.monotonic())
            )
            calls.create_task(_delete(client, ops.reference(item)))


async def _delete(client: ApiClient, reference: ops.Reference) -> None:
    kind, namespace, name = reference
    with suppress(NotFound):  # preempted, for example
        await client.delete(kind, name, namespace)


async def _all(client: ApiClient, kind: type[T]) -> list[T]:
    found = await client.list(kind.__name__)
    return [item for item in found.items if isinstance(item, kind)]
