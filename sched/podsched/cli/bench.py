"""``sched bench``: a workload on real processes, with a progress bar and the figures it reached."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from podsched.app.supervisor import ProcessFailed
from podsched.bench.run import BenchOptions, BenchResult, run_workload
from podsched.bench.workloads import WORKLOADS
from podsched.cli.choices import CreateMode, Evaluator
from podsched.cli.session import FAILED, USAGE, fail
from podsched.client.errors import ClientError
from podsched.store.errors import StoreError


def bench(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"One of {', '.join(WORKLOADS)}.")
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
    ] = 100,
    in_flight: Annotated[int, typer.Option(min=1, help="Calls at a time in single mode.")] = 32,
    replicas: Annotated[int, typer.Option(min=1, help="Scheduler replicas.")] = 1,
    evaluator: Annotated[
        Evaluator, typer.Option(help="Where nodes are evaluated; local starts no Ray.")
    ] = Evaluator.LOCAL,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as one line of JSON.")
    ] = False,
) -> None:
    """Measure throughput on a fresh cluster of real processes on this machine."""
    chosen = WORKLOADS.get(workload)
    if chosen is None:
        fail(f'no workload is called "{workload}"; there are {", ".join(WORKLOADS)}', USAGE)
    chosen = replace(
        chosen,
        nodes=nodes or chosen.nodes,
        pods=pods or chosen.pods,
        first=chosen.first if first < 0 else first,
    )
    options = BenchOptions(create_mode.value, batch_size, in_flight, replicas, evaluator.value)
    console = Console(stderr=True)
    bars: dict[str, TaskID] = {}
    columns = (
        TextColumn("{task.description:>14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    try:
        with Progress(*columns, console=console, transient=True) as bar:

            def progress(stage: str, done: int, total: int) -> None:
                if stage not in bars:
                    bars[stage] = bar.add_task(stage, total=total)
                bar.update(bars[stage], completed=min(done, total), total=total)

            result = asyncio.run(run_workload(chosen, options, progress))
    except (ClientError, StoreError, ProcessFailed) as exc:
        fail(str(exc), FAILED)
    _report(result, as_json=as_json)
    if result.bound < result.pods:
        fail(f"only {result.bound} of {result.pods} pods were bound in time", FAILED)


def _report(result: BenchResult, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result.as_dict()))
        return
    out = sys.stdout
    print(f"{result.workload}: {result.nodes} nodes, {result.pods} pods created", end="", file=out)
    print(" in batches" if result.create_mode == "batch" else " one by one")
    print(
        f"  {result.pods_per_second:,.0f} pods/s ({result.bound} bound in {result.seconds:.2f} s)"
    )
    print(f"  all created after {result.create_seconds:.2f} s")
    print(f"  creation to binding: p50 {result.p50_seconds:.3f} s, p99 {result.p99_seconds:.3f} s")
