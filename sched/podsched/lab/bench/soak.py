"""Check that no process's memory keeps growing while pods are created and deleted.

In each round pods are created, bound, started by the agent and deleted. After each round the memory
of every process is read. After the first rounds, which fill caches of a fixed size, it must not
grow any more.

The API server's own bounds are made small, so that they are reached in the first rounds: 2,000
events, and etcd's history is compacted every 10 s.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from podsched.api.objects import Pod
from podsched.lab.bench.cluster import Bench, BenchOptions, Progress, bench, create_all
from podsched.lab.bench.plot import line_chart
from podsched.lab.bench.processes import growth
from podsched.lab.bench.shapes import copies, pod_template

PODS = 200_000
NODES = 100
REPLICAS = 3
#: Most pods of a round; there are ten rounds at least.
ROUND = 10_000
#: Share of the rounds that is not judged.
WARM_UP = 0.6
#: Pods after which a process that takes longer is judged. etcd 3.5 keeps its last 5,000 to 7,000
#: transactions in memory, with some 100,000 pods (700 MB).
SETTLED = {"etcd": 120_000}
#: Rounds that it takes to tell growth from noise, and bytes that are noise, however few pods there
#: were: allocators take and give back memory by the megabyte, and a round is a peak of its own.
LEAST_ROUNDS = 3
NOISE = 8 << 20
#: Bytes per pod by which a process may grow after that; a message of a pod takes 2,000. Noise is
#: below 100 with 200,000 pods.
MOST_GROWTH = 300.0
#: One of this many pods has a label of its own, like pods of a StatefulSet.
UNIQUE = 20
#: Seconds for the last changes to be taken in everywhere.
SETTLE = 2.0
_SERVER = ("--max-events=2000", "--etcd-compaction-interval=10")


@dataclass(slots=True)
class SoakResult:
    """Bytes of each process after so many pods, and its growth in bytes per pod after warm-up."""

    pods: list[int] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    most_growth: float = MOST_GROWTH

    def add(self, pods: int, memory: dict[str, int]) -> None:
        """Record the memory after a number of pods; 0 for a process that has ended."""
        for name in memory:
            self.memory.setdefault(name, [0] * len(self.pods))
        self.pods.append(pods)
        for name, sizes in self.memory.items():
            sizes.append(memory.get(name, 0))

    @property
    def growth(self) -> dict[str, float | None]:
        """Bytes per pod after the warm-up, by process; None if the run ended before."""
        found: dict[str, float | None] = {}
        for name, sizes in self.memory.items():
            first = self._first_judged(name)
            judged = list(zip(self.pods[first:], sizes[first:], strict=True))
            enough = len(judged) >= LEAST_ROUNDS
            found[name] = round(growth(judged), 1) if enough else None
        return found

    def _first_judged(self, name: str) -> int:
        """Return the first round of a process after its warm-up."""
        settled = SETTLED.get(name, 0)
        return max(int(len(self.pods) * WARM_UP), sum(pods < settled for pods in self.pods))

    @property
    def problems(self) -> list[str]:
        """The processes that grow too fast."""
        return [
            f"{name} grows by {each:,.0f} bytes a pod (at most {self.most_growth:,.0f})"
            for name, each in self.growth.items()
            if each is not None
            and each > self.most_growth
            and each * (self.pods[-1] - self.pods[self._first_judged(name)]) > NOISE
        ]

    def as_dict(self) -> dict[str, object]:
        return {
            "workload": "Soak",
            "pods": self.pods,
            "memory_bytes": self.memory,
            "growth_bytes_per_pod": self.growth,
            "most_growth_bytes_per_pod": self.most_growth,
        }

    def lines(self) -> list[str]:
        slopes = self.growth
        warm = int(len(self.pods) * WARM_UP)
        head = f"Soak: {self.pods[-1] if self.pods else 0:,} pods created, bound and deleted"
        rows = [
            f"  {name[:28]:<28} {_mb(sizes[0])} {_mb(sizes[warm])} {_mb(sizes[-1])} "
            f"{_per_pod(slopes[name]):>12}"
            for name, sizes in self.memory.items()
        ]
        title = f"  {'process':<28} {'first':>9} {'warm':>9} {'last':>9} {'bytes/pod':>12}"
        return [head, title, *rows]

    def chart(self) -> str:
        """Return the memory of every process over the number of pods as SVG."""
        return line_chart(
            "Memory of each process",
            {
                name: [(pods, size / 1e6) for pods, size in zip(self.pods, sizes, strict=True)]
                for name, sizes in self.memory.items()
            },
            x_label="pods created, bound and deleted",
            y_label="MB",
        )


def _per_pod(growth: float | None) -> str:
    return "not judged" if growth is None else f"{growth:,.0f}"


def _mb(size: int) -> str:
    return f"{size / 1e6:>6.1f} MB"


def soak_options(options: BenchOptions, nodes: int) -> BenchOptions:
    """Return the options with what a soak needs: standbys, an agent, small bounds."""
    return replace(
        options,
        replicas=max(options.replicas, REPLICAS),
        agent_nodes=nodes,
        agent_node_pods=2 * ROUND // nodes + 1,
        api_arguments=_SERVER,
    )


async def run_soak(
    pods: int, nodes: int, options: BenchOptions, progress: Progress, most_growth: float
) -> SoakResult:
    """Create and delete a number of pods in rounds.

    Raises ClientError, ProcessFailed, EmbeddedEtcdError or TimeoutError.
    """
    result = SoakResult(most_growth=most_growth)
    async with bench(soak_options(options, nodes), progress) as run:
        size = min(ROUND, max(pods // 10, 1))
        for first in range(0, pods, size):
            count = min(size, pods - first)
            await _round(run, first, count, options)
            await asyncio.sleep(SETTLE)
            result.add(first + count, {name: used.memory for name, used in run.usage().items()})
            progress("pods", first + count, pods)
    return result


async def _round(run: Bench, first: int, count: int, options: BenchOptions) -> None:
    there, within = run.pods.there, options.timeout
    await create_all(run.client, _pods(first, count), options.batch_size)
    late = f"after {within:.0f} s"
    await run.pods.until(
        lambda: sum(there.values()) == count, within, f"not all pods were running {late}"
    )
    await run.client.delete_collection("Pod", "default", timeout=within)
    await run.pods.until(lambda: not there, within, f"not all pods were gone {late}")


def _pods(first: int, count: int) -> list[Pod]:
    """Return pods of one application; some have a label of their own."""
    template = pod_template(
        cpu="10m", memory="10Mi", labels={"app": f"soak-{first}"}, terminationGracePeriodSeconds=1
    )
    pods = list(copies(template, f"soak-{first}", count))
    for pod in pods[::UNIQUE]:
        pod.metadata.labels["statefulset.kubernetes.io/pod-name"] = pod.metadata.name
    return pods
