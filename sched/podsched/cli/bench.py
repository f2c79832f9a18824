"""``sched bench``: run a workload on real processes and print the results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
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
from podsched.bench.queueing import run_queue
from podsched.bench.results import BenchResult, FailoverResult, QueueResult
from podsched.bench.run import BenchOptions, Progress, run_workload
from podsched.bench.workloads import WORKLOADS, Workload
from podsched.cli.enums import CreateMode, Evaluator
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.printers import aligned
from podsched.client.errors import ClientError
from podsched.store.errors import StoreError

ALL, FAILOVER, QUEUE, LIST = "all", "Failover", "Queue", "list"
_NAMES = (*WORKLOADS, FAILOVER, QUEUE)

Result = BenchResult | FailoverResult | QueueResult
R = TypeVar("R")


def bench(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"{', '.join(_NAMES)}, all, or list.")
    ],
    nodes: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of nodes; 0: as in the workload.")
    ] = 0,
    pods: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Number of measured pods; 0: as in the workload."),
    ] = 0,
    first: Annotated[
        int,
        typer.Option(min=-1, help="Number of initial pods; -1: as in the workload."),
    ] = -1,
    create_mode: Annotated[
        CreateMode, typer.Option(help="batch: many pods per call; single: one call per pod.")
    ] = CreateMode.BATCH,
    batch_size: Annotated[
        int, typer.Option(min=1, max=5000, metavar="N", help="Pods per call in batch mode.")
    ] = 500,
    in_flight: Annotated[
        int, typer.Option(min=1, metavar="N", help="Concurrent calls in single mode.")
    ] = 32,
    replicas: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of scheduler replicas.")
    ] = 1,
    evaluator: Annotated[
        Evaluator, typer.Option(help="Where nodes are evaluated; local does not start Ray.")
    ] = Evaluator.LOCAL,
    times: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rounds of Failover per signal.")
    ] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print results as JSON, one line per workload.")
    ] = False,
) -> None:
    """Measure throughput on a fresh cluster of real processes on this machine.

    Failover measures how long scheduling pauses when the leader is killed or
    stopped. Queue measures the cost of the scheduling queue's operations with
    100,000 waiting pods.
    """
    if workload == LIST:
        _list(as_json=as_json)
        return
    if workload not in (*_NAMES, ALL):
        fail(f'unknown workload "{workload}"; choose one of {", ".join(_NAMES)}', USAGE)
    options = BenchOptions(create_mode, batch_size, in_flight, replicas, evaluator)
    sizes = _Sizes(nodes, pods, first, times)
    problems = []
    for name in _NAMES if workload == ALL else (workload,):
        result = _run(name, sizes, options)
        print(json.dumps(result.as_dict()) if as_json else "\n".join(result.lines()), flush=True)
        if isinstance(result, BenchResult) and result.bound < result.pods:
            problems.append(f"{name}: only {result.bound} of {result.pods} pods were bound")
    if problems:
        fail("; ".join(problems), FAILED)


class _Sizes(NamedTuple):
    """Sizes asked for; the defaults of ``bench`` stand for the workload's own."""

    nodes: int
    pods: int
    first: int
    times: int


def _run(name: str, sizes: _Sizes, options: BenchOptions) -> Result:
    if name == QUEUE:
        return run_queue(sizes.pods) if sizes.pods else run_queue()
    if name == FAILOVER:
        return _with_progress(lambda bar: asyncio.run(run_failover(sizes.times, options, bar)))
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
