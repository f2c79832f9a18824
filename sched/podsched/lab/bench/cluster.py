"""The cluster of real processes on this machine that a benchmark uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Pod, key_of
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.config.flags import flag
from podsched.config.settings import Evaluator
from podsched.lab.bench.processes import Usage, usage_of, usage_of_session
from podsched.lib.tasks import in_background, task_group
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import raise_first
from podsched.serve.client.informer import Batch, Informer
from podsched.serve.kube.access import from_kubeconfig
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.informer import KubeInformer
from podsched.serve.kube.paths import collection
from podsched.serve.store.etcd import EtcdStore, connect

#: Seconds between two looks while many pods are waited for: more would cost more than the watch.
LOOK_EVERY = 0.025

T = TypeVar("T")


class PodWatch:
    """Records when each pod was first seen bound (monotonic), and which pods exist.

    ``there``: by key, whether the pod runs.
    """

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        self.there: dict[str, bool] = {}
        self.deleted = 0
        self._changed = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        now = time.monotonic()
        for event in batch.events:
            pod = event.new
            if isinstance(pod, Pod):
                node = pod.spec.node_name
                self.there[event.key] = bool(node) and pod.status.phase == "Running"
                if node and event.key not in self.bound:
                    self.bound[event.key] = now
            elif self.there.pop(event.key, None) is not None:
                self.deleted += 1
        self._changed.set()

    async def until(self, reached: Callable[[], bool], within: float, otherwise: str) -> None:
        """Wait until a condition is true; it is looked at when pods have changed.

        Raises ``TimeoutError`` with the text ``otherwise`` after ``within`` seconds.
        """
        try:
            async with asyncio.timeout(within):
                while not reached():
                    self._changed.clear()
                    await self._changed.wait()
                    if len(self.there) > 100:
                        await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise TimeoutError(otherwise) from None

    async def wait_for(
        self, keys: Iterable[str], within: float, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Wait until all pods are bound, at most ``within`` seconds."""
        left = set(keys)
        total = len(left)

        def all_bound() -> bool:
            left.difference_update(self.bound)
            progress(total - len(left))
            return not left

        with contextlib.suppress(TimeoutError):
            await self.until(all_bound, within, "not all pods are bound")


async def each(
    items: Iterable[T], call: Callable[[T], Coroutine[Any, Any, object]], at_once: int
) -> None:
    """Call a coroutine function for each item, some at once. Raises the first exception."""
    source = iter(items)

    async def one_after_another() -> None:
        for item in source:
            await call(item)

    async with task_group() as group:
        for _ in range(at_once):
            group.create_task(one_after_another())


@contextlib.asynccontextmanager
async def watching(informer: Informer | KubeInformer) -> AsyncIterator[PodWatch]:
    """Watch all pods, including existing ones, while the block runs. informer: of pods alone."""
    pods = PodWatch()
    async with in_background(informer.run(pods.handle), "watch pods"):
        await informer.synced.wait()
        yield pods


Progress = Callable[[str, int, int], None]
CreatePod = Callable[[Pod], Coroutine[Any, Any, object]]

#: As many requests as there is work for: the limit is not to be measured.
_UNLIMITED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": -1},
}


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How to run workloads."""

    create_mode: str = "batch"
    """batch: ``batch_size`` pods per call. single: one call per pod, ``in_flight`` at a time.
    stream: one message per pod on one stream. rest: one request of Kubernetes' REST API per pod,
    ``in_flight`` at a time."""
    batch_size: int = flag(500, "N", min=1, max=5000)
    """Pods per call in batch mode."""
    in_flight: int = flag(32, "N", min=1)
    """Concurrent calls in single mode."""
    replicas: int = flag(1, "N", min=1)
    """Number of scheduler replicas."""
    api_servers: int = flag(1, "N", min=1)
    """Number of API servers."""
    evaluator: Evaluator = flag("local")
    """Where nodes are evaluated; local does not start Ray."""
    rate: float = flag(0, "N", min=0)
    """Create N pods/s, one call each; 0: no limit."""
    through_kube: bool = False
    """Whether replicas schedule, and measured pods are created, through Kubernetes' REST API, one
    pod per request."""
    timeout: float = 600.0
    agent_nodes: int = 0
    """Number of nodes that an agent plays; without, nothing starts the pods that are bound."""
    agent_node_pods: int = 110
    api_arguments: tuple[str, ...] = ()
    scheduler_arguments: tuple[str, ...] = ()
    route: Callable[[str, str], str] = lambda _, address: address
    """Maps the name of a process and an address to the address that the process is to use."""

    @property
    def speaks_rest(self) -> bool:
        """Whether pods that have their own call are created through Kubernetes' REST API."""
        return self.through_kube or self.create_mode == "rest"


def local_cluster(
    options: BenchOptions, data_dir: Path, api_address: str = "127.0.0.1:0"
) -> LocalCluster:
    """Return a cluster to be started, which has its data in a directory."""
    config = None
    if options.through_kube:
        config = data_dir / "scheduler.yaml"
        config.write_text(yaml.safe_dump(_UNLIMITED))
    return LocalCluster(
        LocalClusterOptions(
            data_dir=data_dir,
            api_address=api_address,
            replicas=options.replicas,
            api_servers=options.api_servers,
            nodes=options.agent_nodes,
            node_pods=options.agent_node_pods,
            evaluator=options.evaluator,
            kube_address="127.0.0.1:0" if options.speaks_rest else "",
            through_kube=options.through_kube,
            scheduler_config=config,
            api_arguments=options.api_arguments,
            scheduler_arguments=options.scheduler_arguments,
            route=options.route,
        )
    )


@asynccontextmanager
async def started(cluster: LocalCluster) -> AsyncIterator[LocalCluster]:
    """Run a cluster for the block. Raises ``ProcessFailed``, ``EmbeddedEtcdError``."""
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


@asynccontextmanager
async def etcd_of(cluster: LocalCluster) -> AsyncIterator[EtcdStore]:
    """Connect to a cluster's etcd for the block. Raises ``StoreError``."""
    store = await connect(cluster.tls.etcd_options(cluster.specs.etcd_endpoints))
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Bench:
    """A running cluster, its client, and the client's watch of pods."""

    cluster: LocalCluster
    client: ApiClient
    pods: PodWatch

    def usage(self) -> dict[str, Usage]:
        """Return the CPU time and memory of all processes so far, this one and Ray's too."""
        ray = self.cluster.ray
        return {**usage_of(pids_of(self.cluster)), **usage_of_session(ray.pid if ray else None)}


@asynccontextmanager
async def bench(
    options: BenchOptions, progress: Progress, client_options: ClientOptions | None = None
) -> AsyncIterator[Bench]:
    """Run a cluster with a client for the block. Raises what ``started`` does."""
    progress("starting", 0, 1)
    with tempfile.TemporaryDirectory(prefix="podsched-bench-") as directory:
        async with (
            started(local_cluster(options, Path(directory))) as cluster,
            ApiClient(cluster.server, client_options) as client,
            watching(Informer(client, ["Pod"])) as pods,
        ):
            progress("starting", 1, 1)
            yield Bench(cluster, client, pods)


@asynccontextmanager
async def creating(cluster: LocalCluster, client: ApiClient) -> AsyncIterator[CreatePod]:
    """Yield a function that creates one pod per call, over the REST API if it is served."""
    if cluster.specs.kubeconfig is None:
        yield client.create
        return
    http = KubeHttp(from_kubeconfig(cluster.specs.kubeconfig))

    async def create(pod: Pod) -> None:
        path = collection(KINDS["Pod"], pod.metadata.namespace)
        await http.request("POST", path, body=to_manifest(pod))

    try:
        yield create
    finally:
        await http.close()


class PodCreation:
    """Creates pods in batches, in a stream, one by one, or at a rate."""

    def __init__(self, client: ApiClient, create_pod: CreatePod, options: BenchOptions) -> None:
        """``create_pod`` creates pods that have their own call."""
        self._client = client
        self._create_pod = create_pod
        self._options = options

    async def create(self, pods: Sequence[Pod], rate: float, created: dict[str, float]) -> None:
        """Create pods, ``rate`` per second (0: as fast as possible); note when in ``created``."""
        options = self._options
        if rate:
            await self._create_at_rate(pods, rate, created)
        elif options.create_mode == "batch":
            for start in range(0, len(pods), options.batch_size):
                part = pods[start : start + options.batch_size]
                now = time.monotonic()
                created.update((key_of(pod), now) for pod in part)
                raise_first(await self._client.create_pods(part))
        elif options.create_mode == "stream":
            await self._stream(pods, created)
        else:

            async def create(pod: Pod) -> None:
                created[key_of(pod)] = time.monotonic()
                await self._create_pod(pod)

            await each(pods, create, options.in_flight)

    async def _stream(self, pods: Sequence[Pod], created: dict[str, float]) -> None:
        async with self._client.submit_pods() as stream:
            answers = []
            for pod in pods:
                created[key_of(pod)] = time.monotonic()
                answers.append(await stream.submit(pod))
            raise_first([await answer for answer in answers])

    async def _create_at_rate(
        self, pods: Sequence[Pod], rate: float, created: dict[str, float]
    ) -> None:
        """Create ``rate`` pods per second, also while calls of earlier ones are not answered."""
        began = time.monotonic()
        async with task_group() as calls:
            for index, pod in enumerate(pods):
                await asyncio.sleep(max(0.0, began + index / rate - time.monotonic()))
                created[key_of(pod)] = time.monotonic()
                calls.create_task(self._create_pod(pod), name=f"create {pod.metadata.name}")


def pids_of(cluster: LocalCluster) -> dict[str, int | None]:
    """Return the process IDs whose CPU time is measured, including this process."""
    named = {process.spec.name: process.pid for process in cluster.processes}
    return {**named, "etcd": cluster.etcd.pid if cluster.etcd else None, "bench": os.getpid()}


async def create_all(client: ApiClient, objects: Sequence[AnyObject], size: int = 500) -> None:
    """Create objects in batches. Raises ClientError for the first failure."""
    for start in range(0, len(objects), size):
        raise_first(await client.create_many(objects[start : start + size]))
