"""``sched bench``: run a workload on real processes and print the results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as ProgressBar

from podsched.app.supervisor import ProcessFailed
from podsched.bench.failover import run_failover
from podsched.bench.overload import run_overload
from podsched.bench.overload_result import OverloadResult
from podsched.bench.queueing import run_queue
from podsched.bench.results import BenchResult, FailoverResult, QueueResult
from podsched.bench.run import BenchOptions, Progress, run_workload
from podsched.bench.soak import MOST_GROWTH, NODES, PODS, SoakResult, run_soak
from podsched.bench.workloads import WORKLOADS, Workload
from podsched.cli import bench_options as given
from podsched.cli.enums import CreateMode, Evaluator
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.printers import aligned
from podsched.client.errors import ClientError
from podsched.store.errors import StoreError

ALL, FAILOVER, QUEUE, LIST = "all", "Failover", "Queue", "list"
SOAK, OVERLOAD = "Soak", "Overload"
#: What "all" runs. The others take minutes, and speed is not what they measure.
_SPEED = (*WORKLOADS, FAILOVER, QUEUE)
_NAMES = (*_SPEED, SOAK, OVERLOAD)

Result = BenchResult | FailoverResult | QueueResult | SoakResult | OverloadResult
R = TypeVar("R")


def bench(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"{', '.join(_NAMES)}, all, or list.")
    ],
    nodes: given.Nodes = 0,
    pods: given.Pods = 0,
    first: given.First = -1,
    create_mode: given.Mode = CreateMode.BATCH,
    batch_size: given.BatchSize = 500,
    in_flight: given.InFlight = 32,
    rate: given.Rate = 0,
    replicas: given.Replicas = 1,
    evaluator: given.Evaluators = Evaluator.LOCAL,
    times: given.Times = 3,
    most_growth: given.MostGrowth = MOST_GROWTH,
    plot: given.Plot = None,
    as_json: given.AsJson = False,
) -> None:
    """Measure throughput on a fresh cluster of real processes on this machine.

    Failover measures how long scheduling pauses when the leader is killed or
    stopped. Queue measures the cost of the scheduling queue's operations with
    100,000 waiting pods. Soak lets 200,000 pods come and go with three replicas
    and fails if a process keeps growing. Overload measures what ten flooding
    clients do to others, and fails if these become more than twice as slow.
    "all" leaves these two out.
    """
    if workload == LIST:
        _list(as_json=as_json)
        return
    if workload not in (*_NAMES, ALL):
        fail(f'unknown workload "{workload}"; choose one of {", ".join(_NAMES)}', USAGE)
    if plot is not None and workload != SOAK:
        fail(f"--plot: only {SOAK} is plotted", USAGE)
    options = BenchOptions(create_mode, batch_size, in_flight, replicas, evaluator, rate)
    sizes = _Sizes(nodes, pods, first, times, most_growth)
    problems = []
    for name in _SPEED if workload == ALL else (workload,):
        result = _run(name, sizes, options)
        print(json.dumps(result.as_dict()) if as_json else "\n".join(result.lines()), flush=True)
        problems += [f"{name}: {problem}" for problem in result.problems]
        if plot is not None and isinstance(result, SoakResult):
            _write(result, plot)
    if problems:
        fail("; ".join(problems), FAILED)


class _Sizes(NamedTuple):
    """Sizes asked for; the defaults of ``bench`` stand for the workload's own."""

    nodes: int
    pods: int
    first: int
    times: int
    most_growth: float


def _write(result: SoakResult, path: Path) -> None:
    try:
        result.write_chart(path)
    except OSError as exc:
        fail(f"--plot {path}: {exc.strerror}", FAILED)


def _run(name: str, sizes: _Sizes, options: BenchOptions) -> Result:
    if name == QUEUE:
        return run_queue(sizes.pods) if sizes.pods else run_queue()
    if name == FAILOVER:
        return _with_progress(lambda bar: asyncio.run(run_failover(sizes.times, options, bar)))
    if name == SOAK:
        pods, nodes = sizes.pods or PODS, sizes.nodes or NODES
        return _with_progress(
            lambda bar: asyncio.run(run_soak(pods, nodes, options, bar, sizes.most_growth))
        )
    if name == OVERLOAD:
        size = (sizes.nodes, sizes.pods)
        return _with_progress(lambda bar: asyncio.run(run_overload(*size, options, bar)))
    workload = _sized(WORKLOADS[name], sizes)
    return _with_progress(lambda bar: asyncio.run(run_workload(workload, options, bar)))


def _sized(workload: Workload, sizes: _Sizes) -> Workload:
    """Return the workload in another size, which is then not compared with kube-scheduler."""
    sized = replace(
        workload,
        nodes=sizes.nodes or workload.nodes,
        pods=sizes.pods or workload.pods,
        first=workload.first if sizes.first < 0 else sizes.first,
    )
    return sized if sized == workload else replace(sized, kube_scheduler=0.0)


def _list(*, as_json: bool) -> None:
    rows = [["WORKLOAD", "NODES", "INITIAL PODS", "MEASURED PODS"]]
    for workload in WORKLOADS.values():
        sizes = {"nodes": workload.nodes, "first": workload.first, "pods": workload.pods}
        if as_json:
            print(json.dumps({"workload": workload.name, **sizes}))
        rows.append([workload.name, *(f"{size:,}" for size in sizes.values())])
    if not as_json:
        print("\n".join(aligned(rows)))


def _with_progress(measure: Callable[[Progress], R]) -> R:
    columns = (
        TextColumn("{task.description:>16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    bars: dict[str, TaskID] = {}
    try:
        with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:

            def progress(stage: str, done: int, total: int) -> None:
                if stage not in bars:
                    bars[stage] = bar.add_task(stage, total=total)
                bar.update(bars[stage], completed=min(done, total), total=total)

            return measure(progress)
    except (ClientError, StoreError, ProcessFailed, TimeoutError) as exc:
        fail(str(exc) or "timed out", FAILED)


__all__ = ["bench"]
