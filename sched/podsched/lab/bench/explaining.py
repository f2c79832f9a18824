"""Measure explanations, and how much they slow down scheduling.

On a cluster without load, explanations of unschedulable and of bound pods are requested one after
another, with and without the smallest changes. Then pods are created in rounds, every second round
during constant explanations: the difference in throughput is their cost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from podsched.api.objects import Pod, key_of
from podsched.lab.bench.cluster import Bench, BenchOptions, Progress, bench, create_all
from podsched.lab.bench.results import percentile
from podsched.lab.bench.shapes import copies, node, pod_template
from podsched.lab.bench.verify import unbound
from podsched.lib.tasks import task_group
from podsched.serve.client.api_client import ApiClient
from podsched.v1.scheduling_pb2 import ExplainRequest

NODES: Final = 5000
PODS: Final = 1000
#: Pods of each kind that are explained, calls for each, and rounds with and without an asker.
_EXPLAINED, _CALLS, _ROUNDS = 10, 40, 3
#: Seconds for the pods of one round.
_WITHIN: Final = 60.0
#: CPUs of a pod that has to wait: more than any node has.
_TOO_MUCH: Final = "64"


@dataclass(slots=True)
class ExplainResult:
    """The times of calls (p50, p90 and p99) in ``milliseconds``, by what is explained.

    ``quiet``, ``asked``: pods bound per second by round, without and with explanations;
    ``explained``: the number of explanations.
    """

    nodes: int
    pods: int
    milliseconds: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    quiet: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    explained: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The throughput with explanations, divided by that without them; 0: unknown."""
        quiet, asked = sum(self.quiet), sum(self.asked)
        return round(asked / quiet, 3) if quiet else 0.0

    def as_dict(self) -> dict[str, object]:
        return {"workload": "Explain", **asdict(self), "ratio": self.ratio}

    def lines(self) -> list[str]:
        calls = [
            f"  {what}: p50 {p50:.1f} ms, p90 {p90:.1f} ms, p99 {p99:.1f} ms"
            for what, (p50, p90, p99) in self.milliseconds.items()
        ]
        quiet, asked = (", ".join(f"{r:,.0f}" for r in rs) for rs in (self.quiet, self.asked))
        return [
            f"Explain: {self.nodes:,} nodes, rounds of {self.pods:,} pods",
            *calls,
            f"  pods/s without explanations: {quiet}",
            f"  pods/s with one explanation after another: {asked}"
            f" ({self.ratio:.0%}; {self.explained:,} explanations)",
        ]


async def run_explain(
    nodes: int, pods: int, options: BenchOptions, progress: Progress
) -> ExplainResult:
    """Run the benchmark; 0 means the usual size. Raises ``ClientError``, ``ProcessFailed``..."""
    result = ExplainResult(nodes or NODES, pods or PODS)
    async with bench(options, progress) as run:
        await create_all(run.client, [node(f"node-{n}") for n in range(result.nodes)])
        waiting = list(copies(pod_template(cpu=_TOO_MUCH), "waiting", _EXPLAINED))
        bound = list(copies(pod_template(), "bound", _EXPLAINED))
        await create_all(run.client, [*waiting, *bound])
        await _all_bound(run, bound, result)
        await _measure_calls(run.client, waiting, bound, result, progress)
        for number in range(2 * _ROUNDS):
            await _round(run, waiting, number, result)
            progress("rounds", number + 1, 2 * _ROUNDS)
    return result


async def _measure_calls(
    client: ApiClient,
    waiting: Sequence[Pod],
    bound: Sequence[Pod],
    result: ExplainResult,
    progress: Progress,
) -> None:
    for what, pods, changes in (
        ("waiting pod", waiting, False),
        ("bound pod", bound, False),
        ("waiting pod, smallest changes", waiting, True),
    ):
        took = []
        for number in range(_CALLS):
            began = time.perf_counter()
            await _explain(client, pods[number % len(pods)], changes)
            took.append((time.perf_counter() - began) * 1000)
            progress(what, number + 1, _CALLS)
        result.milliseconds[what] = percentiles(took)


async def _explain(client: ApiClient, pod: Pod, changes: bool) -> None:
    meta = pod.metadata
    request = ExplainRequest(namespace=meta.namespace, name=meta.name, changes=changes)
    await client.explain(request, timeout=_WITHIN)


async def _round(run: Bench, waiting: Sequence[Pod], number: int, result: ExplainResult) -> None:
    """Bind pods, with constant explanations in every second round. Raises their errors."""
    pods = list(copies(pod_template(), f"round-{number}", result.pods))
    rates = result.asked if number % 2 else result.quiet
    async with task_group() as group:
        asking = group.create_task(_ask(run.client, waiting, result)) if number % 2 else None
        began = time.monotonic()
        await create_all(run.client, pods)
        await _all_bound(run, pods, result)
        last = max(run.pods.bound.get(key_of(pod), time.monotonic()) for pod in pods)
        if asking is not None:
            asking.cancel()
    rates.append(round(len(pods) / (last - began), 1))


async def _all_bound(run: Bench, pods: Sequence[Pod], result: ExplainResult) -> None:
    keys = [key_of(pod) for pod in pods]
    await run.pods.wait_for(keys, _WITHIN)
    result.problems += unbound(keys, run.pods.bound)


async def _ask(client: ApiClient, waiting: Sequence[Pod], result: ExplainResult) -> None:
    """Request explanations without pause until cancelled."""
    while True:
        await _explain(client, waiting[result.explained % len(waiting)], changes=False)
        result.explained += 1


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return p50, p90 and p99 of at least one value, to a tenth."""
    p50, p90, p99 = (round(percentile(values, p), 1) for p in (50, 90, 99))
    return p50, p90, p99
