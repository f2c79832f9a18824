"""What ten flooding clients do to an ordinary one, to the leader and to memory.

In one run, phases without and with the flood take turns, so that both see the same machine:

    quiet, flooded, quiet, flooded, ...

In each phase an ordinary client creates, reads, lists and deletes, one call after another, and the
leader binds a backlog: pods that were waiting for nodes, which come with the phase.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace

from podsched.api.objects import Namespace, Node
from podsched.lab.bench.floods import CLIENTS, namespace_of
from podsched.lab.bench.overload_result import OverloadResult, Phase, Sizes, grown, most_of
from podsched.lab.bench.processes import memory_of
from podsched.lab.bench.run import Bench, BenchOptions, Progress, bench, create_all, pids_of
from podsched.lab.bench.shapes import copies, key_of, node, pod_template
from podsched.lib.processes import dying_with_parent
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError
from podsched.v1 import api_pb2 as v1

NODES, PODS, EXISTING = 20, 2000, 5000
ROUNDS = 3
#: Seconds of flood before the first phase, in which what the servers' bounds allow comes into use:
#: at least and at most, until memory has not grown for so long, and between two looks.
FILL, LONGEST_FILL, LEVEL, LOOK_EVERY = 45.0, 300.0, 30.0, 1.0
#: What is kept of the past is little and soon full, in etcd and in the server's ring of changes
#: (100,000 by default, some 200 MiB), so that only the flood can make them grow.
_SERVER = ("--etcd-compaction-interval=10", "--watch-cache-events=10000")
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
    options = replace(options, evaluator="local", api_arguments=_SERVER)
    async with bench(options, ClientOptions(timeout=PATIENCE)) as run:
        await _prepare(run.client)
        progress("filling", 0, 1)
        async with _flood(run.cluster.server, {}):
            filling = await _fill(pids_of(run.cluster))
        for number in range(2 * ROUNDS + 2):
            progress("phases", number, 2 * ROUNDS + 2)
            part = _Part(run, number, nodes or NODES, pods or PODS)
            phases.append(await part.run(pids_of(run.cluster)))
    # The first two are for practice: after them everybody has had as much to remember as ever.
    return OverloadResult(phases[2:], filling)


async def _fill(pids: Mapping[str, int | None]) -> list[Sizes]:
    """Wait until memory has levelled off, or time is up; return its sizes of late."""
    began = time.monotonic()
    sizes: collections.deque[Sizes] = collections.deque(maxlen=int(LEVEL / LOOK_EVERY))
    while (passed := time.monotonic() - began) < LONGEST_FILL:
        await asyncio.sleep(LOOK_EVERY)
        sizes.append(memory_of(pids))
        if passed >= FILL and not grown(list(sizes)):
            break
    return list(sizes)


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

    def __init__(self, run: Bench, number: int, nodes: int, pods: int) -> None:
        self._client, self._server, self._seen = run.client, run.cluster.server, run.pods
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
            sizes: list[Sizes] = []
            looking = asyncio.create_task(_look(pids, sizes), name="memory")
            phase = await self._measure(calls)
            looking.cancel()
            phase.resident, phase.peak = memory_of(pids), most_of([*sizes, memory_of(pids)])
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
        await self._seen.wait_for(keys, WITHIN)
        await asyncio.sleep(began + PHASE_SECONDS - time.monotonic())
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        bound = sorted(self._seen.bound[key] for key in keys if key in self._seen.bound)
        return Phase(
            flooded=self._flooded,
            latencies=ordinary.latencies,
            errors=ordinary.errors,
            pods=len(keys),
            bound=len(bound),
            bind_seconds=bound[-1] - bound[0] if bound else 0.0,
            flood=calls,
        )


async def _look(pids: Mapping[str, int | None], sizes: list[Sizes]) -> None:
    """Note memory until cancelled."""
    while True:
        sizes.append(memory_of(pids))
        await asyncio.sleep(LOOK_EVERY)


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
    program = [sys.executable, "-m", "podsched.lab.bench.floods", server]
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
