"""Measure how long pods wait when any single process or link of a whole system fails.

The system is that of ``sched chaos``: three etcd members, two API servers, three replicas and an
agent, with a relay on every link. The faults are the single ones of ``sched chaos`` that leave a
majority. A client creates pods at a steady rate. Each round injects one fault into a random target
of its kind for some seconds, and measures

    next       from the fault until the first binding of a pod that was created after it
    longest    the longest wait of a pod that was created during the fault

The client reaches the API servers through relays of its own, and like any client it must notice
that its server is gone. Before the next round all processes are ready and all pods are bound.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from podsched.api.objects import Lease
from podsched.lab.bench.cluster import PodWatch, Progress, watching
from podsched.lab.bench.failover import (
    LATE,
    LOAD_SELECTOR,
    LOCK,
    SETTLE,
    WITHIN,
    FailoverLoad,
    Load,
    prepare,
)
from podsched.lab.bench.results import percentile
from podsched.lab.chaos.faults.kinds import SINGLE, Kind, Need, named
from podsched.lab.chaos.faults.processes import ray_actors
from podsched.lab.chaos.system import CLIENT, MEMBERS, System, SystemOptions
from podsched.lib.tasks import TaskSet, in_background
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Informer
from podsched.serve.store.errors import StoreError

#: Seconds for which a fault lasts: longer than any takeover should take.
LASTS = 3.0
SEED = 1
_SHARES = {"p50": 50, "p99": 99, "max": 100}


@dataclass(frozen=True, slots=True)
class FaultRound:
    """One round: the fault, what it hit, and seconds (see the module)."""

    fault: str
    what: str
    next: float
    longest: float


@dataclass(slots=True)
class EveryFaultResult:
    """All rounds that ended, and their load.

    skipped: faults that could not be injected, with the reason. problems: rounds that did not end.
    """

    load: FailoverLoad
    rounds: list[FaultRound] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def faults(self) -> Counter[str]:
        """The number of rounds of each fault, in the order of their first rounds."""
        return Counter(each.fault for each in self.rounds)

    def figures(self, fault: str) -> dict[str, float]:
        """Return the distributions of a fault's rounds, in seconds."""
        rounds = [each for each in self.rounds if each.fault == fault]
        return {
            f"{name}_{share}": round(percentile((getattr(one, name) for one in rounds), p), 3)
            for name in ("next", "longest")
            for share, p in _SHARES.items()
        }

    def as_dict(self) -> dict[str, object]:
        return {
            **self.load.as_dict(),
            "rounds": len(self.rounds),
            "seconds": {fault: self.figures(fault) for fault in self.faults},
            "skipped": self.skipped,
            "problems": self.problems,
        }

    def lines(self) -> list[str]:
        lines = [
            f"{self.load}, faults of {LASTS:g} s",
            "  seconds until a pod is bound that was created after the fault, and the",
            "  longest that a pod waited which was created while the fault lasted:",
            f"  {'':<24}{'rounds':>7}{'next':>8}{'':>8}{'':>8}{'longest':>9}",
            f"  {'':<24}{'':>7}" + f"{'p50':>8}{'p99':>8}{'max':>8}" * 2,
        ]
        for fault, count in self.faults.items():
            values = "".join(f"{value:>8.3f}" for value in self.figures(fault).values())
            lines.append(f"  {fault:<24}{count:>7}{values}")
        slowest = sorted(self.rounds, key=lambda each: -each.longest)[:5]
        lines.append("  waited longest")
        lines += [f"    {each.longest:.3f} s  {each.fault}: {each.what}" for each in slowest]
        return lines + [f"  {name}: {why}" for name, why in self.skipped.items()]


async def run_every_fault(
    load: FailoverLoad, progress: Progress, *, ray: bool = False
) -> EveryFaultResult:
    """Run all rounds.

    Raises ``ClientError``, ``ProcessFailed`` and others.
    """
    known = named({Need.RAY} if ray else ())
    kinds = {name: kind for name, kind in known.items() if name in SINGLE}
    tasks = TaskSet("faults")
    with tempfile.TemporaryDirectory(prefix="podsched-bench-") as directory:
        system = System(SystemOptions(data_dir=Path(directory), seed=SEED, ray=ray), tasks)
        try:
            await system.start()
            async with (
                system.direct_client() as direct,
                system.client() as client,
                watching(Informer(client, ["Pod"])) as pods,
            ):
                await prepare(direct, load.nodes, load.bound, progress)
                rounds = _Rounds(system, direct, Load(client, load.rate), pods)
                return await rounds.run(load, kinds, progress)
        finally:
            await system.stop()
            await tasks.stop()


class _Rounds:
    """The rounds on one system."""

    def __init__(self, system: System, direct: ApiClient, load: Load, pods: PodWatch) -> None:
        self._system, self._direct = system, direct
        self._load, self._pods = load, pods
        self._chance = random.Random(SEED)
        self._actors = self._count_actors()

    async def run(
        self, load: FailoverLoad, kinds: Mapping[str, Kind], progress: Progress
    ) -> EveryFaultResult:
        result = EveryFaultResult(load)
        names = list(kinds) * load.times
        for done, name in enumerate(names):
            progress("failover", done, len(names))
            if name in result.skipped:
                continue
            try:
                measured = await self._round(name, kinds[name])
                # Where this client is cut off from all API servers, nothing can be measured.
                if not measured.what.startswith(CLIENT):
                    result.rounds.append(measured)
            except TimeoutError as error:  # An OSError, too, but the worst case and not skipped.
                result.problems.append(f"{name}: {error}")
                await self._delete_pods()
            except (LookupError, StoreError, OSError) as error:
                result.skipped[name] = str(error) or type(error).__name__
        return result

    async def _round(self, name: str, kind: Kind) -> FaultRound:
        await self._wait_until_healthy()
        async with in_background(self._load.run(), "load"):
            await asyncio.sleep(SETTLE)
            began = time.monotonic()
            async with kind.inject(self._system, self._chance.random()) as what:
                await asyncio.sleep(LASTS)
            ended = time.monotonic()
            await self._pods.until(lambda: bool(self._waits(began, ended)[1]), WITHIN, LATE)
        await self._pods.until(lambda: self._waits(began, ended)[0], WITHIN, LATE)
        _, waits = self._waits(began, ended)
        next_bound = min(at + wait for at, wait in waits) - began
        await self._delete_pods()
        return FaultRound(name, what, next_bound, max(wait for _, wait in waits))

    def _waits(self, began: float, ended: float) -> tuple[bool, Sequence[tuple[float, float]]]:
        """Return whether all pods of the time are bound, and when each was created and waited."""
        bound = self._pods.bound
        during = [(key, at) for key, at in self._load.created.items() if began < at < ended]
        waits = [(at, bound[key] - at) for key, at in during if key in bound]
        return bool(waits) and len(waits) == len(during), waits

    async def _wait_until_healthy(self) -> None:
        """Wait until every process is ready, a replica leads, and Ray has its actors again."""
        processes = self._system.cluster.processes
        await asyncio.gather(*(process.wait_ready() for process in processes))
        deadline = time.monotonic() + SETTLE * 60
        while time.monotonic() < deadline:
            with suppress(ClientError, LookupError):
                for index in range(MEMBERS):
                    self._system.etcd.pid(index)  # LookupError: it does not run
                lease = await self._direct.get(*LOCK)
                assert isinstance(lease, Lease)
                if lease.spec.holder_identity and self._count_actors() >= self._actors:
                    self._system.leader_identity = lease.spec.holder_identity
                    return
            await asyncio.sleep(0.1)
        raise TimeoutError("no replica leads, or Ray lacks actors")

    def _count_actors(self) -> int:
        ray = self._system.cluster.ray
        return 0 if ray is None or ray.pid is None else len(ray_actors(ray.pid))

    async def _delete_pods(self) -> None:
        """Delete the pods of the round, again if no server answers."""
        for _ in range(30):
            try:
                await self._direct.delete_collection("Pod", "default", label_selector=LOAD_SELECTOR)
                break
            except ClientError:
                await asyncio.sleep(0.5)
        self._load.created.clear()
        self._pods.bound.clear()
