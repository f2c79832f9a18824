"""What ten flooding clients do to an ordinary one, to the leader and to memory.

In one run, phases without and with the flood take turns, so that both see the same machine:

    quiet, flooded, quiet, flooded, ...

In each phase an ordinary client creates, reads, lists and deletes, one call after another, and the
leader binds a backlog: pods that were waiting for nodes, which come with the phase.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace

from podsched.api.objects import Namespace, Node
from podsched.bench.floods import CLIENTS, namespace_of
from podsched.bench.overload_result import OverloadResult, Phase
from podsched.bench.pod_watch import BoundCounter, watching
from podsched.bench.processes import peak_bytes, reset_peaks, resident_bytes
from podsched.bench.run import BenchOptions, Progress, bench_cluster, create_all, pids_of
from podsched.bench.shapes import copies, key_of, node, pod_template
from podsched.client.api_client import ApiClient
from podsched.client.channels import ClientOptions
from podsched.client.errors import ClientError
from podsched.lib.processes import dying_with_parent
from podsched.v1 import api_pb2 as v1

NODES, PODS, EXISTING = 20, 2000, 5000
ROUNDS = 3
#: Seconds of flood before the first phase, after which what the server's bounds allow is in use.
FILL = 45.0
#: etcd gives back what it keeps of the past soon, so that only the flood can make it grow.
_SERVER = ("--etcd-compaction-interval=10",)
#: Least seconds of a phase, and for which a flood runs before it is measured.
PHASE_SECONDS, WARM_UP = 8.0, 3.0
#: Seconds that the ordinary client waits between two calls, and at most for an answer.
PAUSE, PATIENCE = 0.005, 30.0
WITHIN = 300.0
_LABEL = "bench.podsched/phase"


async def run_overload(
    nodes: int, pods: int, options: BenchOptions, progress: Progress
) -> OverloadResult:
    """Run all phases. Raises ``ClientError``, ``TimeoutError`` and others.

    nodes, pods: of a phase's backlog; 0 takes the defaults.
    """
    phases: list[Phase] = []
    async with (
        bench_cluster(replace(options, evaluator="local", api_arguments=_SERVER)) as cluster,
        ApiClient(cluster.server, ClientOptions(timeout=PATIENCE)) as client,
    ):
        counter = BoundCounter()
        async with watching(client, counter):
            await _prepare(client)
            progress("filling", 0, 1)
            async with _flood(cluster.server, {}):
                await asyncio.sleep(FILL)
            for number in range(2 * ROUNDS):
                progress("phases", number, 2 * ROUNDS)
                part = _Part(client, cluster.server, counter, number, nodes or NODES, pods or PODS)
                phases.append(await part.run(pids_of(cluster)))
    return OverloadResult(phases)


async def _prepare(client: ApiClient) -> None:
    """Create what lists are long of, and the namespaces of the floods.

    And a node on which no pod may be: without any, pods wait for backoffs instead of nodes.
    """
    await client.create(node("elsewhere"))
    for number in range(sum(CLIENTS.values())):
        namespace = Namespace()
        namespace.metadata.name = namespace_of(number)
        await client.create(namespace)
    await create_all(client, list(copies(pod_template(schedulerName="nobody"), "old", EXISTING)))


class _Part:
    """One phase; those with an odd number are flooded."""

    def __init__(
        self,
        client: ApiClient,
        server: str,
        counter: BoundCounter,
        number: int,
        nodes: int,
        pods: int,
    ) -> None:
        self._client = client
        self._server = server
        self._counter = counter
        self._label = {_LABEL: str(number)}
        self._flooded = number % 2 == 1
        template = pod_template(labels=self._label, nodeSelector=self._label)
        self._pods = list(copies(template, f"phase-{number}", pods))
        self._nodes = [self._node(f"node-{number}-{index}", pods) for index in range(nodes)]

    def _node(self, name: str, pods: int) -> Node:
        return node(name, self._label, cpu="1000", memory="4Ti", pods=pods)

    async def run(self, pids: Mapping[str, int | None]) -> Phase:
        await create_all(self._client, self._pods)
        async with contextlib.AsyncExitStack() as stack:
            calls: dict[str, int] = {}
            if self._flooded:
                await stack.enter_async_context(_flood(self._server, calls))
            # The leader has tried all pods, and their backoff is over, when the nodes come.
            await asyncio.sleep(WARM_UP)
            reset_peaks(pids)
            phase = await self._measure(calls)
            phase.resident, phase.peak = resident_bytes(pids), peak_bytes(pids)
        await self._client.delete_collection("Node", label_selector=self._selector)
        await self._client.delete_collection(
            "Pod", label_selector=self._selector, grace_period_seconds=0
        )
        return phase

    @property
    def _selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self._label.items())

    async def _measure(self, calls: dict[str, int]) -> Phase:
        ordinary = _Ordinary()
        keys = [key_of(pod) for pod in self._pods]
        began = time.monotonic()
        asking = asyncio.create_task(ordinary.run(self._server), name="ordinary client")
        await create_all(self._client, self._nodes)
        await self._counter.wait_for(keys, WITHIN, lambda _: None)
        await asyncio.sleep(began + PHASE_SECONDS - time.monotonic())
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        bound = sorted(self._counter.bound[key] for key in keys if key in self._counter.bound)
        return Phase(
            flooded=self._flooded,
            latencies=ordinary.latencies,
            errors=ordinary.errors,
            pods=len(keys),
            bound=len(bound),
            bind_seconds=bound[-1] - bound[0] if bound else 0.0,
            flood=calls,
        )


class _Ordinary:
    """A client that makes one small call after another and notes how long each took."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.errors: list[str] = []

    async def run(self, server: str) -> None:
        """Call until cancelled."""
        (pod,) = copies(pod_template(schedulerName="nobody"), "ordinary", 1)
        # Not the name of the last phase's, which may have been interrupted before it was deleted.
        pod.metadata.name = f"ordinary-{time.monotonic_ns()}"
        listed = v1.ListRequest(kind="Node", limit=10)
        async with ApiClient(server, ClientOptions(timeout=PATIENCE)) as client:
            calls: tuple[Callable[[], Awaitable[object]], ...] = (
                lambda: client.create(pod),
                lambda: client.get("Pod", pod.metadata.name, "default"),
                lambda: client.list_page(listed),
                lambda: client.delete("Pod", pod.metadata.name, "default"),
            )
            for call in itertools.cycle(calls):
                began = time.monotonic()
                try:
                    await call()
                except ClientError as error:
                    self.errors.append(str(error))
                self.latencies.append(time.monotonic() - began)
                await asyncio.sleep(PAUSE)


@contextlib.asynccontextmanager
async def _flood(server: str, calls: dict[str, int]) -> AsyncIterator[None]:
    """Run the flooding clients for the block; ``calls`` gets how their calls ended."""
    program = [sys.executable, "-m", "podsched.bench.floods", server]
    process = await asyncio.create_subprocess_exec(
        *dying_with_parent(program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        await process.stdout.readline()
        yield
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            calls.update(json.loads(await process.stdout.readline()))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
