"""Measure how ten flooding clients affect an ordinary client, the leader and memory.

In one run, phases without and with the flood alternate, so that both see the same machine:

    quiet, flooded, quiet, flooded, ...

In each phase an ordinary client creates, reads, lists and deletes, one call after another, and the
leader binds a backlog: pending pods, for which the phase adds nodes.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from podsched.api.objects import Namespace, key_of
from podsched.lab.bench.cluster import Bench, BenchOptions, Progress, bench, create_all, pids_of
from podsched.lab.bench.floods import CLIENTS, namespace_of
from podsched.lab.bench.processes import memory_of
from podsched.lab.bench.results import percentile
from podsched.lab.bench.shapes import copies, node, pod_template
from podsched.lib.counted import counted
from podsched.lib.processes import dying_with_parent
from podsched.lib.tasks import in_background
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.errors import ClientError
from podsched.v1 import api_pb2 as v1

#: How many times worse a flood may make the ordinary client's calls and the leader's bindings.
AT_MOST = 2.0
#: A process's memory is flat if after the last flood it is at most this factor of that after the
#: first flood, plus these bytes; or if it grows as much without a flood: etcd keeps its last
#: thousands of transactions in any case (``sched bench Soak`` judges that).
FLAT_FACTOR, FLAT_BYTES = 1.1, 32 << 20
MIB = 1 << 20


#: Bytes that processes have allocated, by name.
Sizes = Mapping[str, int]


def grown(sizes: Sequence[Sizes]) -> dict[str, tuple[int, int]]:
    """Return the processes whose last size is above their earlier maximum, with both sizes.

    The memory of a process goes up and down. It counts as flat if its last size is at most its
    earlier maximum in the same period, plus one percent and one MiB.
    """
    found = {}
    for name, last in sizes[-1].items():
        half = [each[name] for each in sizes[: len(sizes) // 2] if name in each]
        if half and last > max(half) * 1.01 + MIB:
            found[name] = max(half), last
    return found


def most_of(sizes: Iterable[Sizes]) -> dict[str, int]:
    """Return the maximum of each process."""
    most = collections.Counter[str]()
    for each in sizes:
        most |= collections.Counter(each)
    return most


@dataclass(slots=True)
class Phase:
    """One phase. Latencies in seconds; ``bind_seconds``: from the first binding to the last.

    ``flood``: number of calls of the flood by outcome. ``resident`` and ``peak``: bytes by process.
    """

    flooded: bool
    latencies: list[float]
    errors: list[str]
    pods: int
    bound: int
    bind_seconds: float
    flood: dict[str, int] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class OverloadResult:
    """The phases and derived figures.

    filling: memory at the end of the flood before the phases.
    """

    phases: list[Phase]
    filling: list[Sizes] = field(default_factory=list)

    def _of(self, *, flooded: bool) -> Sequence[Phase]:
        return [phase for phase in self.phases if phase.flooded is flooded]

    def latency(self, percent: int, *, flooded: bool) -> float:
        """Return a percentile of the ordinary client's calls, in seconds."""
        each = (seconds for phase in self._of(flooded=flooded) for seconds in phase.latencies)
        return percentile(each, percent)

    def bind_rate(self, *, flooded: bool) -> float:
        """Return pods bound per second, of all phases together."""
        phases = self._of(flooded=flooded)
        seconds = sum(phase.bind_seconds for phase in phases)
        return sum(phase.bound for phase in phases) / seconds if seconds else 0.0

    @property
    def flood(self) -> dict[str, int]:
        """The number of calls of the floods by outcome."""
        total: collections.Counter[str] = collections.Counter()
        for phase in self.phases:
            total.update(phase.flood)
        return dict(sorted(total.items()))

    def memory(self) -> dict[str, tuple[int, int, int]]:
        """Return, by process, the bytes after the first and the last flood, and the maximum."""
        floods = self._of(flooded=True)
        return {
            name: (
                before,
                floods[-1].resident.get(name, 0),
                max(phase.peak.get(name, 0) for phase in self.phases),
            )
            for name, before in floods[0].resident.items()
        }

    def _of_floods(self, name: str) -> int:
        """Return how much more a process has grown in phases with a flood than in the others."""
        more = 0
        for before, after in itertools.pairwise(self.phases):
            growth = after.resident.get(name, 0) - before.resident.get(name, 0)
            more += growth if after.flooded else -growth
        return more

    @property
    def problems(self) -> list[str]:
        """The broken promises; empty if there are none."""
        found = []
        quiet, flooded = (self.latency(99, flooded=when) for when in (False, True))
        if flooded > AT_MOST * quiet:
            times = _ratio(flooded, quiet)
            found.append(f"the ordinary client's p99 is {times} times that of quiet")
        quiet, flooded = (self.bind_rate(flooded=when) for when in (False, True))
        if flooded * AT_MOST < quiet:
            found.append(f"the leader binds {_ratio(quiet, flooded)} times slower")
        if errors := [error for phase in self.phases for error in phase.errors]:
            found.append(f"{len(errors)} of the ordinary client's calls failed: {errors[0]}")
        if lost := sum(phase.pods - phase.bound for phase in self.phases):
            found.append(f"not bound: {counted(lost, 'pod')}")
        for name, (first, last) in grown(self.filling).items() if self.filling else ():
            sizes = f"{first // MIB} to {last // MIB} MiB"
            found.append(f"{name} was still growing when the phases began: {sizes}")
        for name, (first, last, _) in self.memory().items():
            if last > first * FLAT_FACTOR + FLAT_BYTES and self._of_floods(name) > FLAT_BYTES:
                found.append(f"{name} grew from {first // MIB} to {last // MIB} MiB")
        return found

    def as_dict(self) -> dict[str, object]:
        sides = {
            name: {
                "p50_seconds": round(self.latency(50, flooded=when), 5),
                "p99_seconds": round(self.latency(99, flooded=when), 5),
                "calls": sum(len(phase.latencies) for phase in self._of(flooded=when)),
                "bound_per_second": round(self.bind_rate(flooded=when), 1),
            }
            for name, when in (("quiet", False), ("flooded", True))
        }
        memory = {
            name: dict(zip(("first_mib", "last_mib", "peak_mib"), map(_mib, sizes), strict=True))
            for name, sizes in self.memory().items()
        }
        return {
            "workload": "Overload",
            **sides,
            "memory": memory,
            "flood": self.flood,
            "problems": self.problems,
        }

    def lines(self) -> list[str]:
        found = ["Overload: ten flooding clients beside an ordinary one; quiet -> flooded"]
        for percent in (50, 99):
            quiet, flooded = (1000 * self.latency(percent, flooded=w) for w in (False, True))
            times = _ratio(flooded, quiet)
            found.append(f"  ordinary call, p{percent}: {quiet:.1f} -> {flooded:.1f} ms ({times}x)")
        quiet, flooded = (self.bind_rate(flooded=when) for when in (False, True))
        found.append(
            f"  leader: {quiet:,.0f} -> {flooded:,.0f} pods bound/s ({_ratio(quiet, flooded)}x)"
        )
        found.append("  memory after the first flood -> the last (most), MiB:")
        for name, sizes in self.memory().items():
            first, last, most = map(_mib, sizes)
            found.append(f"    {name}: {first} -> {last} ({most})")
        found.append("  calls of the flood:")
        found += [f"    {name}: {count:,}" for name, count in self.flood.items()]
        return found


def _ratio(worse: float, better: float) -> str:
    return f"{worse / better:.1f}" if better else "?"


def _mib(size: int) -> int:
    return size // MIB


NODES, PODS, EXISTING = 20, 2000, 5000
ROUNDS = 3
#: Seconds of the flood before the first phase, which fills memory up to the servers' bounds: it
#: lasts from FILL to LONGEST_FILL, until memory has not grown for LEVEL; and between two looks.
FILL, LONGEST_FILL, LEVEL, LOOK_EVERY = 45.0, 300.0, 30.0, 1.0
#: Little of the past is kept, in etcd and in the server's ring of changes (100,000 by default, some
#: 200 MiB): both are soon full, and only the flood can make them grow.
_SERVER = ("--etcd-compaction-interval=10", "--watch-cache-events=10000")
#: Seconds of a phase at least, and of its flood before anything is measured.
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
    async with bench(options, progress, ClientOptions(timeout=PATIENCE)) as run:
        await _prepare(run.client)
        progress("filling", 0, 1)
        async with _flood(run.cluster.server, {}):
            filling = await _fill(pids_of(run.cluster))
        for number in range(2 * ROUNDS + 2):
            progress("phases", number, 2 * ROUNDS + 2)
            phase = _PhaseRun(run, number, nodes or NODES, pods or PODS)
            phases.append(await phase.run(pids_of(run.cluster)))
    # The first two are for practice: after them, caches have reached their usual size.
    return OverloadResult(phases[2:], filling)


async def _fill(pids: Mapping[str, int | None]) -> list[Sizes]:
    """Wait until memory is flat, or the time is over; return the last sizes."""
    began = time.monotonic()
    sizes: collections.deque[Sizes] = collections.deque(maxlen=int(LEVEL / LOOK_EVERY))
    while (passed := time.monotonic() - began) < LONGEST_FILL:
        await asyncio.sleep(LOOK_EVERY)
        sizes.append(memory_of(pids))
        if passed >= FILL and not grown(list(sizes)):
            break
    return list(sizes)


async def _prepare(client: ApiClient) -> None:
    """Create objects that make lists long, and the namespaces of the floods.

    Also create a node that takes no pods: without a node, pods would wait for backoffs instead.
    """
    await client.create(node("elsewhere"))
    for number in range(sum(CLIENTS.values())):
        namespace = Namespace()
        namespace.metadata.name = namespace_of(number)
        await client.create(namespace)
    await create_all(client, list(copies(pod_template(schedulerName="nobody"), "old", EXISTING)))


class _PhaseRun:
    """One phase; those with an odd number are flooded."""

    def __init__(self, run: Bench, number: int, nodes: int, pods: int) -> None:
        self._client, self._server, self._seen = run.client, run.cluster.server, run.pods
        label = {_LABEL: str(number)}
        self._selector = f"{_LABEL}={number}"
        self._flooded = number % 2 == 1
        template = pod_template(labels=label, nodeSelector=label)
        self._pods = list(copies(template, f"phase-{number}", pods))
        self._nodes = [
            node(f"node-{number}-{index}", label, cpu="1000", memory="4Ti", pods=pods)
            for index in range(nodes)
        ]

    async def run(self, pids: Mapping[str, int | None]) -> Phase:
        await create_all(self._client, self._pods)
        async with contextlib.AsyncExitStack() as stack:
            calls: dict[str, int] = {}
            if self._flooded:
                await stack.enter_async_context(_flood(self._server, calls))
            # The leader has tried all pods, and their backoff is over, when the nodes come.
            await asyncio.sleep(WARM_UP)
            sizes: list[Sizes] = []
            async with in_background(_record_memory(pids, sizes), "memory"):
                phase = await self._measure(calls)
            phase.resident, phase.peak = memory_of(pids), most_of([*sizes, memory_of(pids)])
        await self._client.delete_collection("Node", label_selector=self._selector)
        await self._client.delete_collection(
            "Pod", label_selector=self._selector, grace_period_seconds=0
        )
        return phase

    async def _measure(self, calls: dict[str, int]) -> Phase:
        latencies, errors = list[float](), list[str]()
        keys = [key_of(pod) for pod in self._pods]
        began = time.monotonic()
        async with in_background(
            _be_ordinary_client(self._server, latencies, errors), "ordinary client"
        ):
            await create_all(self._client, self._nodes)
            await self._seen.wait_for(keys, WITHIN)
            await asyncio.sleep(began + PHASE_SECONDS - time.monotonic())
        bound = sorted(self._seen.bound[key] for key in keys if key in self._seen.bound)
        return Phase(
            flooded=self._flooded,
            latencies=latencies,
            errors=errors,
            pods=len(keys),
            bound=len(bound),
            bind_seconds=bound[-1] - bound[0] if bound else 0.0,
            flood=calls,
        )


async def _record_memory(pids: Mapping[str, int | None], sizes: list[Sizes]) -> None:
    """Record memory until cancelled."""
    while True:
        sizes.append(memory_of(pids))
        await asyncio.sleep(LOOK_EVERY)


async def _be_ordinary_client(server: str, latencies: list[float], errors: list[str]) -> None:
    """Make and measure one small call after another, as an ordinary client, until cancelled."""
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
                errors.append(str(error))
            latencies.append(time.monotonic() - began)
            await asyncio.sleep(PAUSE)


@contextlib.asynccontextmanager
async def _flood(server: str, calls: dict[str, int]) -> AsyncIterator[None]:
    """Run the flooding clients for the block; ``calls`` gets the outcomes of their calls."""
    program = [sys.executable, "-m", "podsched.lab.bench.floods", server]
    process = await asyncio.create_subprocess_exec(
        *dying_with_parent(program), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
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
