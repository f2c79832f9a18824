"""Measure the cost of a pod as the cluster grows, for equal and for different pods.

First nodes are added, up to 100,000, without other pods. Then, in another cluster of 5,000 nodes,
bound pods are added, up to 300,000 (created with their ``nodeName``, so that loading them costs no
scheduling). At every size a burst of each sort of pod is measured and deleted.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace

from podsched.api.node_labels import ZONE
from podsched.lab.bench.cluster import BenchOptions, Progress
from podsched.lab.bench.ops import CreateNodes, CreatePods, DeletePods, Workload
from podsched.lab.bench.plot import line_chart
from podsched.lab.bench.runner import Measurement, Runner, running
from podsched.lab.bench.shapes import node_status
from podsched.lab.bench.templates import Template

NODES = (100, 1_000, 5_000, 20_000, 100_000)
BOUND = (30_000, 60_000, 100_000, 300_000)
#: Nodes of the cluster in which bound pods are added.
NODES_FOR_BOUND = 5_000
#: Measured pods of each sort.
BURST = {"one template": 3_000, "all different": 1_000}

#: Seconds for a burst, after which it has failed.
BURST_WITHIN = 180.0


def _node(first: int) -> Template:
    """Return the template of nodes that are numbered from ``first`` on."""
    zone = {ZONE: "zone-{{index % 3 + 1}}"}
    return Template(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{{{{index + {first}}}}}", "labels": zone},
            "status": node_status("32", "128Gi", "400"),
        }
    )


def _pod(cpu: str, memory: str, labels: dict[str, str], **spec: object) -> Template:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests}}
    return Template(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
    )


def _template(sort: str, point: int) -> Template:
    """Return the template of a sort of pods; pods of different points always differ."""
    if sort == "one template":
        return _pod("10m", "20Mi", {"app": "one"})
    number = f"index + {point} * 100000"
    memory = f"{{{{10240 + ({number}) * 7919 % 104729}}}}Ki"
    return _pod("{{5 + index % 17}}m", memory, {"app": "own", "pod-name": f"{{{{{number}}}}}"})


@dataclass(slots=True)
class ScalePoint:
    """One burst: the ``sort`` of pods, and the size of the cluster."""

    sort: str
    nodes: int
    bound: int
    pods_per_second: float
    cpu_us_per_pod: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)

    @property
    def scheduler(self) -> float:
        """Microseconds of the scheduler's CPU per pod."""
        return self.cpu_us_per_pod.get("scheduler-0", 0.0)


@dataclass(slots=True)
class ScaleResult:
    """The bursts in order; ``problems``: why the result is invalid."""

    points: list[ScalePoint] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return {"workload": "Scale", **asdict(self)}

    def lines(self) -> list[str]:
        head = f"  {'nodes':>8} {'bound':>8}  {'pods':<14} {'pods/s':>7} {'us/pod':>7} "
        rows = [
            f"  {p.nodes:>8,} {p.bound:>8,}  {p.sort:<14} {p.pods_per_second:>7,.0f} "
            f"{p.scheduler:>7,.0f} {p.memory_mb.get('scheduler-0', 0.0):>7,.0f} "
            f"{p.memory_mb.get('apiserver-0', 0.0):>7,.0f}"
            for p in self.points
        ]
        title = "Scale: the scheduler's CPU per pod; memory in MB of scheduler and API server"
        return [title, f"{head}{'sched.':>7} {'api':>7}", *rows]

    def chart(self) -> str:
        """Return the scheduler's CPU per pod against the size of the cluster as SVG."""
        series: dict[str, list[tuple[float, float]]] = {}
        for point in self.points:
            kind = f"{point.sort}, {'bound pods' if point.bound else 'nodes'}"
            series.setdefault(kind, []).append((point.bound or point.nodes, point.scheduler))
        return line_chart(
            "Scheduler CPU per pod",
            series,
            x_label="nodes, or bound pods on 5,000 nodes",
            y_label="microseconds",
            log=True,
        )


@dataclass(frozen=True, slots=True)
class ScaleLimits:
    """Limits of the run. ``seconds``: no further size begins after that; 0: no limit."""

    max_nodes: int
    max_bound: int
    seconds: float


async def run_scale(limits: ScaleLimits, options: BenchOptions, progress: Progress) -> ScaleResult:
    """Measure all sizes within the limits.

    Raises ClientError, ProcessFailed or EmbeddedEtcdError.
    """
    result = ScaleResult()
    deadline = time.monotonic() + (limits.seconds or 1e9)
    options = replace(options, timeout=min(options.timeout, BURST_WITHIN))
    sizes = [nodes for nodes in NODES if nodes <= limits.max_nodes]
    async with _sweep(options, progress, result) as sweep:
        for nodes in sizes:
            if time.monotonic() < deadline:
                await sweep.measure(nodes, 0)
    bounds = [bound for bound in BOUND if bound <= limits.max_bound]
    if bounds and time.monotonic() < deadline:
        nodes = min(NODES_FOR_BOUND, limits.max_nodes)
        async with _sweep(options, progress, result) as sweep:
            for bound in bounds:
                if time.monotonic() < deadline:
                    await sweep.measure(nodes, bound)
    return result


@asynccontextmanager
async def _sweep(
    options: BenchOptions, progress: Progress, result: ScaleResult
) -> AsyncIterator[_Sweep]:
    """Run a cluster for the block, and check its content at the end."""
    async with running(options, progress) as runner:
        yield _Sweep(runner, result)
        result.problems += await runner.verify()


class _Sweep:
    """A cluster that grows."""

    def __init__(self, runner: Runner, result: ScaleResult) -> None:
        self._runner = runner
        self._result = result
        self._nodes = 0
        self._bound = 0

    async def measure(self, nodes: int, bound: int) -> None:
        """Let the cluster grow to a size and measure a burst of each sort of pods."""
        point = len(self._result.points)
        await self._runner.carry_out(self._growth(nodes, bound))
        self._nodes, self._bound = nodes, bound
        for at, (sort, count) in enumerate(BURST.items()):
            # The first pod makes sure that the scheduler has taken in what is new.
            warm_up = CreatePods(1, (_template(sort, 2 * point + 1),), f"warm-{point}-{at}", "warm")
            burst = CreatePods(
                count, (_template(sort, 2 * point),), f"burst-{point}-{at}", "burst", measured=True
            )
            self._runner.measured = Measurement()
            await self._runner.carry_out((warm_up, burst))
            figures = self._runner.result(Workload("Scale", (burst,)))
            costs = figures.pods_per_second, figures.cpu_us_per_pod, figures.memory_mb
            self._result.points.append(ScalePoint(sort, nodes, bound, *costs))
            await self._runner.carry_out(DeletePods(namespace=name) for name in ("burst", "warm"))

    def _growth(self, nodes: int, bound: int) -> tuple[CreateNodes, CreatePods]:
        before, first = self._nodes, self._bound
        name = f"node-{{{{(index + {first}) % {nodes}}}}}"
        placed = _pod("10m", "20Mi", {"app": "app-{{index % 100}}"}, nodeName=name)
        return (
            CreateNodes(nodes - before, (_node(before),)),
            CreatePods(bound - first, (placed,), f"bound-{first}", "bound"),
        )
