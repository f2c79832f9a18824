"""Measure how long scheduling pauses after the leader is killed, stopped, paused or cut off.

Three replicas run under load: nodes and bound pods, and pods that are created at a steady rate.
Each round injects a fault into the leader, and measures the time from the fault until

    detected    a standby claims the lock, by its own log
    elected     a replica leads, by its own log
    bound       a pod is bound that was created after the fault, as a client sees it

Before the next round the replica is repaired, and the pods of the round are deleted.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from podsched.api.objects import Lease, key_of
from podsched.app.local_cluster import LocalCluster
from podsched.app.stored_state import read_stored_state
from podsched.app.supervisor import ManagedProcess
from podsched.lab.bench.cluster import Bench, BenchOptions, Progress, bench, create_all, etcd_of
from podsched.lab.bench.results import percentile
from podsched.lab.bench.shapes import copies, node, pod_template
from podsched.lab.chaos.faults.network import CUT
from podsched.lab.chaos.system import Links
from podsched.lib.counted import counted
from podsched.lib.tasks import TaskSet, in_background
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, ClientError

#: How many pods that waited longest are named.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Takeover:
    """One round: seconds from the fault until each step (see the module).

    longest: the pods created around the fault that waited longest, with seconds.
    """

    fault: str
    detected: float
    elected: float
    bound: float
    longest: Sequence[tuple[str, float]] = ()


_STEPS = "detected", "elected", "bound"
_SHARES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


@dataclass(slots=True)
class FailoverResult:
    """All rounds, their load, and problems with the stored objects."""

    load: FailoverLoad
    api_servers: int
    rounds: list[Takeover]
    problems: list[str] = field(default_factory=list)

    @property
    def faults(self) -> Counter[str]:
        """The number of rounds of each fault, in the order of their first rounds."""
        return Counter(each.fault for each in self.rounds)

    def figures(self, fault: str) -> dict[str, dict[str, float]]:
        """Return the distribution of each step in seconds."""
        found: dict[str, dict[str, float]] = {}
        for step in _STEPS:
            values = [getattr(each, step) for each in self.rounds if each.fault == fault]
            found[step] = {name: round(percentile(values, p), 3) for name, p in _SHARES.items()}
        return found

    def waited_longest(self) -> list[tuple[str, float, str]]:
        """Return the pods that waited longest of all, with seconds and the fault."""
        found = [(pod, s, each.fault) for each in self.rounds for pod, s in each.longest]
        return sorted(found, key=lambda item: -item[1])[:_SHOWN]

    def as_dict(self) -> dict[str, object]:
        return {
            **self.load.as_dict(),
            "api_servers": self.api_servers,
            "rounds": len(self.rounds),
            "seconds": {fault: self.figures(fault) for fault in self.faults},
            "waited_longest": [
                {"pod": pod, "seconds": round(seconds, 3), "fault": fault}
                for pod, seconds, fault in self.waited_longest()
            ],
            "problems": self.problems,
        }

    def lines(self) -> list[str]:
        lines = [
            f"{self.load}, {counted(self.api_servers, 'API server')}",
            "  seconds from the fault until a standby claims the lock, until it leads,",
            "  and until a pod is bound that was created after the fault:",
            f"  {'':<20}{''.join(f'{name:>9}' for name in _SHARES)}",
        ]
        for fault, count in self.faults.items():
            lines.append(f"  {fault}, {counted(count, 'round')}")
            for step, figures in self.figures(fault).items():
                values = "".join(f"{figures[name]:>9.3f}" for name in _SHARES)
                lines.append(f"    {step:<18}{values}")
        waited = [f"    {s:.3f} s  {pod}, {fault}" for pod, s, fault in self.waited_longest()]
        return [*lines, "  waited longest to be bound", *waited]


LOCK = ("Lease", "kube-scheduler", "kube-system")
REPLICAS, NODES = 3, 10
#: Seconds after which a round has failed, and what is said then.
WITHIN, LATE = 60.0, "the round did not end"
#: Seconds between two rounds, for the standbys to warm up.
SETTLE = 1.0
#: Pods a second where none are asked for: enough to see a pause of some hundredths of a second.
RATE = 100.0
#: The leader reaches neither etcd nor an API server. Connections stay open; what is sent waits.
PARTITION = "partition"
LOAD = {"bench.podsched/load": "trickle"}
LOAD_SELECTOR = "bench.podsched/load=trickle"
_LOG_LINE = re.compile(r"^(\S+Z) \[info\s*\] (Claiming the lock|Started leading) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FailoverLoad:
    """The load to measure under, and the number of rounds per fault."""

    nodes: int = NODES
    bound: int = 0
    rate: float = RATE
    times: int = 3
    faults: Sequence[str] = ("SIGKILL", "SIGTERM")

    def __str__(self) -> str:
        return f"Failover: {self.nodes:,} nodes, {self.bound:,} pods bound, {self.rate:g} pods/s"

    def as_dict(self) -> dict[str, object]:
        figures = {"nodes": self.nodes, "bound": self.bound, "rate": self.rate}
        return {"workload": "Failover", **figures}


def _route(links: Links, process: str, address: str) -> str:
    """Return the relay's address to use in place of an address, for replicas."""
    if not process.startswith("scheduler"):
        return address
    target = address.rpartition("/")[2]  # without a scheme
    return links.relay(process, address, target).address


#: Calls of the client that may be under way at once.
IN_FLIGHT = 500
#: Tries to create a pod, and seconds between two of them.
_TRIES, _RETRY_AFTER = 100, 0.1


class Load:
    """Creates pods at a steady rate, one call each, without waiting for answers."""

    def __init__(self, client: ApiClient, rate: float) -> None:
        self._client, self._rate = client, rate
        self._numbers = itertools.count()
        self._template = pod_template(labels=LOAD, terminationGracePeriodSeconds=0)
        self.created: dict[str, float] = {}
        """When the first call began (monotonic) of each pod that was created."""

    async def run(self) -> None:
        """Create pods until cancelled; then wait for the calls under way."""
        under_way: set[asyncio.Task[None]] = set()
        due = time.monotonic()
        try:
            while True:
                if len(under_way) < IN_FLIGHT:
                    call = asyncio.create_task(self._create(), name="create")
                    under_way.add(call)
                    call.add_done_callback(under_way.discard)
                due = max(due + 1 / self._rate, time.monotonic() - 1.0)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        finally:
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _create(self) -> None:
        """Create a pod, again until it exists, as controllers do."""
        (pod,) = copies(self._template, f"load{next(self._numbers)}", 1)
        began = time.monotonic()
        for _ in range(_TRIES):
            try:
                await self._client.create(pod)
            except AlreadyExists:
                pass  # An earlier try had no answer.
            except ClientError:
                await asyncio.sleep(_RETRY_AFTER)
                continue
            self.created[key_of(pod)] = began
            return


async def run_failover(
    load: FailoverLoad, options: BenchOptions, progress: Progress
) -> FailoverResult:
    """Run all rounds. Raises ``ClientError``, ``ProcessFailed``, ``TimeoutError`` and others."""
    tasks = TaskSet("links")
    links = Links(tasks, 0, "")
    options = replace(options, replicas=max(REPLICAS, options.replicas))
    if PARTITION in load.faults:
        options = replace(options, route=partial(_route, links))
    try:
        return await _run(load, options, links, progress)
    finally:
        await tasks.stop()


async def _run(
    load: FailoverLoad, options: BenchOptions, links: Links, progress: Progress
) -> FailoverResult:
    rounds: list[Takeover] = []
    async with bench(options, progress) as run:
        await prepare(run.client, load.nodes, load.bound, progress)
        created = Load(run.client, load.rate)
        total = load.times * len(load.faults)
        for done in range(total):
            progress("failover", done, total)
            fault = load.faults[done % len(load.faults)]
            rounds.append(await _Round(run, links, created, fault).run())
        problems = await _problems(run.cluster)
    return FailoverResult(load, options.api_servers, rounds, problems)


async def prepare(client: ApiClient, nodes: int, bound: int, progress: Progress) -> None:
    """Create nodes, and pods that are bound from the start."""
    room = -(-bound // nodes) + 500
    names = (f"node-{number}" for number in range(nodes))
    await create_all(client, [node(n, cpu="64", memory="256Gi", pods=room) for n in names])
    template = pod_template(cpu="10m", memory="16Mi")
    for start in range(0, bound, 1000):
        progress("pods", start, bound)
        pods = list(copies(template, f"bound-{start}", min(1000, bound - start)))
        for number, pod in enumerate(pods, start):
            pod.spec.node_name = f"node-{number % nodes}"
        await create_all(client, pods)


class _Round:
    """One fault and what follows."""

    def __init__(self, run: Bench, links: Links, load: Load, fault: str) -> None:
        self._client, self._cluster = run.client, run.cluster
        self._pods, self._bound = run.pods, run.pods.bound
        self._links = links
        self._load = load
        self._fault = fault

    async def run(self) -> Takeover:
        """Measure one takeover.

        Raises ``TimeoutError`` if no replica takes over, ``ProcessFailed`` if the leader is not
        started again.
        """
        created = self._load.created
        created.clear()
        await asyncio.gather(*(process.wait_ready() for process in self._cluster.schedulers))
        async with in_background(self._load.run(), "load"):
            await asyncio.sleep(SETTLE)
            leader = await self._leader()
            restarts, wall, began = leader.restarts, time.time(), time.monotonic()
            if self._fault == PARTITION:
                for relay in self._links.of(leader.spec.name):
                    relay.link.impair(CUT)
            else:
                leader.kill(signal.Signals[self._fault])
            bound = await self._first_bound(created, began)
            detected, elected = self._steps(leader, wall)
            await self._repair(leader, restarts)
            waited = await self._longest_waits(created)
        await self._client.delete_collection("Pod", "default", label_selector=LOAD_SELECTOR)
        return Takeover(self._fault, detected, elected, bound - began, waited)

    async def _leader(self) -> ManagedProcess:
        lease = await self._client.get(*LOCK)
        assert isinstance(lease, Lease)
        return self._cluster.replica_of(lease.spec.holder_identity)

    async def _first_bound(self, created: Mapping[str, float], began: float) -> float:
        def times() -> list[float]:
            after = [key for key, at in created.items() if at > began]
            return [self._bound[key] for key in after if key in self._bound]

        await self._pods.until(lambda: bool(times()), WITHIN, LATE)
        return min(times())

    def _steps(self, leader: ManagedProcess, since: float) -> tuple[float, float]:
        """Return the seconds to the first claim and the first leadership of another replica."""
        steps: dict[str, list[float]] = {"Claiming the lock": [], "Started leading": []}
        for process in self._cluster.schedulers:
            if process is leader:
                continue
            for stamp, what in _LOG_LINE.findall(process.log_tail(200)):
                at = datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
                if at >= since:
                    steps[what].append(at - since)
        claims, elected = steps.values()
        return min(claims, default=0.0), min(elected, default=0.0)

    async def _repair(self, leader: ManagedProcess, restarts: int) -> None:
        """Repair the replica: connect, resume, or restart it."""
        if self._fault == PARTITION:
            for relay in self._links.of(leader.spec.name):
                relay.link.restore(CUT)
        elif self._fault == "SIGSTOP":
            leader.kill(signal.SIGCONT)
        else:
            await leader.wait_restarted(restarts, WITHIN)

    async def _longest_waits(self, created: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return the pods that waited longest until they were bound, the longest first."""
        keys = list(created)
        await self._pods.until(lambda: all(key in self._bound for key in keys), WITHIN, LATE)
        waited = [(key, self._bound[key] - created[key]) for key in keys]
        return sorted(waited, key=lambda item: -item[1])[:_SHOWN]


async def _problems(cluster: LocalCluster) -> list[str]:
    """Return problems with etcd's content after all rounds."""
    async with etcd_of(cluster) as store:
        nodes = (await read_stored_state(store)).overcommitted_nodes()
    return [f"nodes beyond their capacity: {', '.join(sorted(nodes))}"] if nodes else []
