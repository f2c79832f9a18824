"""``sched bench``: a workload on real processes, with a progress bar and the figures it reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, TypeVar

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
from podsched.cli.client import FAILED, USAGE, fail
from podsched.cli.enums import CreateMode, Evaluator
from podsched.client.errors import ClientError
from podsched.store.errors import StoreError

ALL, FAILOVER, QUEUE, LIST = "all", "Failover", "Queue", "list"
_NAMES = (*WORKLOADS, FAILOVER, QUEUE)

Result = BenchResult | FailoverResult | QueueResult
R = TypeVar("R")


def bench(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"One of {', '.join(_NAMES)}, all, or list.")
    ],
    nodes: Annotated[int, typer.Option(min=0, help="Nodes; 0: as in the workload.")] = 0,
    pods: Annotated[int, typer.Option(min=0, help="Measured pods; 0: as in the workload.")] = 0,
    first: Annotated[
        int, typer.Option(min=-1, help="Pods bound before; -1: as in the workload.")
    ] = -1,
    create_mode: Annotated[
        CreateMode, typer.Option(help="batch: many pods a call; single: a call for each pod.")
    ] = CreateMode.BATCH,
    batch_size: Annotated[
        int, typer.Option(min=1, max=5000, help="Pods a call, in batch mode.")
    ] = 500,
    in_flight: Annotated[int, typer.Option(min=1, help="Calls at a time in single mode.")] = 32,
    replicas: Annotated[int, typer.Option(min=1, help="Scheduler replicas.")] = 1,
    evaluator: Annotated[
        Evaluator, typer.Option(help="Where nodes are evaluated; local starts no Ray.")
    ] = Evaluator.LOCAL,
    times: Annotated[int, typer.Option(min=1, help="Rounds of Failover for each signal.")] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON, a line for each workload.")
    ] = False,
) -> None:
    """Measure throughput on a fresh cluster of real processes on this machine.

    Failover measures how long nobody schedules after the leader was killed or stopped, Queue what
    the scheduling queue costs with 100,000 pods in it.
    """
    if workload == LIST:
        _list(as_json=as_json)
        return
    if workload not in (*_NAMES, ALL):
        fail(f'no workload is called "{workload}"; there are {", ".join(_NAMES)}', USAGE)
    options = BenchOptions(create_mode, batch_size, in_flight, replicas, evaluator)
    missing = []
    for name in _NAMES if workload == ALL else (workload,):
        if name == QUEUE:
            result: Result = run_queue(pods) if pods else run_queue()
        elif name == FAILOVER:
            result = _with_progress(lambda bar: asyncio.run(run_failover(times, options, bar)))
        else:
            sized = _sized(WORKLOADS[name], nodes, pods, first)
            result = bound = _measured(sized, options)
            if bound.bound < bound.pods:
                missing.append(f"{name}: only {bound.bound} of {bound.pods} pods were bound")
        print(json.dumps(result.as_dict()) if as_json else "\n".join(result.lines()), flush=True)
    if missing:
        fail("; ".join(missing), FAILED)


def _measured(workload: Workload, options: BenchOptions) -> BenchResult:
    return _with_progress(lambda bar: asyncio.run(run_workload(workload, options, bar)))


def _sized(workload: Workload, nodes: int, pods: int, first: int) -> Workload:
    """Return the workload in the size asked for; in another it is not compared with kube-scheduler."""
    sized = replace(
        workload,
        nodes=nodes or workload.nodes,
        pods=pods or workload.pods,
        first=workload.first if first < 0 else first,
    )
    return sized if sized == workload else replace(sized, kube_scheduler=0.0)


def _list(*, as_json: bool) -> None:
    for workload in WORKLOADS.values():
        sizes = {"nodes": workload.nodes, "first": workload.first, "pods": workload.pods}
        if as_json:
            print(json.dumps({"workload": workload.name, **sizes}))
        else:
            print(f"{workload.name:28}" + ", ".join(f"{n:,} {what}" for what, n in sizes.items()))


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
        fail(str(exc) or "not within the time allowed", FAILED)
