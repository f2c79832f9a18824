"""How long scheduling pauses after the leader is killed or stopped.

There are three replicas and a trickle of pods. Each round sends a signal to the leader. The gap is
the time from the signal until a pod that was created after it is bound. The replica is restarted
before the next round.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections.abc import Sequence
from dataclasses import replace

from podsched.app.local_cluster import LocalCluster
from podsched.bench.pod_watch import BoundCounter, watching
from podsched.bench.results import FailoverResult
from podsched.bench.run import BenchOptions, Progress, bench_cluster, create_all
from podsched.bench.shapes import copies, node, pod_template
from podsched.client.api_client import ApiClient

LOCK = ("Lease", "kube-scheduler", "kube-system")
REPLICAS = 3
NODES = 10
#: Seconds between two pods, and after which a round has failed.
TRICKLE = 0.01
WITHIN = 60.0
#: Seconds between two rounds, for the standbys to warm up.
SETTLE = 1.0


async def run_failover(
    times: int,
    options: BenchOptions,
    progress: Progress,
    signals: Sequence[signal.Signals] = (signal.SIGKILL, signal.SIGTERM),
) -> FailoverResult:
    """Run ``times`` rounds per signal. Raises ``ClientError``, ``TimeoutError`` and others."""
    options = replace(options, replicas=max(REPLICAS, options.replicas))
    gaps: dict[str, list[float]] = {number.name: [] for number in signals}
    async with bench_cluster(options) as cluster, ApiClient(cluster.server) as client:
        counter = BoundCounter()
        numbers = itertools.count()
        async with watching(client, counter):
            await create_all(client, [node(f"node-{n}", pods=100_000) for n in range(NODES)])
            await _next_bound(client, counter, numbers)
            for done in range(times * len(signals)):
                number = signals[done % len(signals)]
                progress(f"failover {number.name}", done // len(signals), times)
                gaps[number.name].append(await _round(client, cluster, counter, numbers, number))
    return FailoverResult(gaps)


async def _round(
    client: ApiClient,
    cluster: LocalCluster,
    counter: BoundCounter,
    numbers: itertools.count[int],
    number: signal.Signals,
) -> float:
    await asyncio.gather(*(process.wait_ready() for process in cluster.schedulers))
    await asyncio.sleep(SETTLE)
    kind, name, namespace = LOCK
    lease = await client.get(kind, name, namespace)
    leader = cluster.replica_of(lease.spec.holder_identity)  # type: ignore[union-attr]
    began = time.monotonic()
    leader.kill(number)
    return await _next_bound(client, counter, numbers) - began


async def _next_bound(
    client: ApiClient, counter: BoundCounter, numbers: itertools.count[int]
) -> float:
    """Create pods until one of them is bound; return when that was (monotonic)."""
    mine: list[str] = []
    async with asyncio.timeout(WITHIN):
        while True:
            (pod,) = copies(pod_template(cpu="", memory=""), "trickle", 1)
            pod.metadata.name = f"trickle-{next(numbers)}"
            await client.create(pod)
            mine.append(f"default/{pod.metadata.name}")
            await asyncio.sleep(TRICKLE)
            bound = [counter.bound[key] for key in mine if key in counter.bound]
            if bound:
                return min(bound)
