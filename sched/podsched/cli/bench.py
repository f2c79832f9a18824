"""``sched bench``: run a workload on real processes and print the results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
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
from podsched.cli import bench_options as given
from podsched.cli.enums import BenchBackend, CreateMode
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.printers import aligned
from podsched.config.errors import ConfigError
from podsched.lab.bench.explaining import ExplainResult, run_explain
from podsched.lab.bench.failover import NODES as FAILOVER_NODES
from podsched.lab.bench.failover import RATE, FailoverLoad, run_failover
from podsched.lab.bench.failover_result import FailoverResult
from podsched.lab.bench.ops import Workload
from podsched.lab.bench.overload import run_overload
from podsched.lab.bench.overload_result import OverloadResult
from podsched.lab.bench.plot import write_chart
from podsched.lab.bench.queueing import run_queue
from podsched.lab.bench.repeated import RepeatedResult
from podsched.lab.bench.restart import BOUND as RESTART_BOUND
from podsched.lab.bench.restart import NODES as RESTART_NODES
from podsched.lab.bench.restart import RestartResult, run_restart
from podsched.lab.bench.results import BenchResult, QueueResult
from podsched.lab.bench.run import BenchOptions, Progress
from podsched.lab.bench.runner import run_workload
from podsched.lab.bench.scale import BOUND, ScaleLimits, ScaleResult, run_scale
from podsched.lab.bench.scale import NODES as SCALE_NODES
from podsched.lab.bench.soak import MOST_GROWTH, NODES, PODS, SoakResult, run_soak
from podsched.lab.bench.workload_file import load_workloads
from podsched.lab.bench.workloads import builtin_names, builtin_workloads, sized
from podsched.serve.client.errors import ClientError
from podsched.serve.store.errors import StoreError

ALL, FAILOVER, QUEUE, LIST, SCALE = "all", "Failover", "Queue", "list", "scale"
SOAK, OVERLOAD, RESTART, EXPLAIN = "Soak", "Overload", "Restart", "Explain"
#: What "all" runs. The others take minutes, and speed is not what they measure.
_SPEED = (*builtin_names(), FAILOVER, QUEUE)
_NAMES = (*_SPEED, SOAK, OVERLOAD, RESTART, EXPLAIN, SCALE)

Result = (
    RepeatedResult
    | BenchResult
    | FailoverResult
    | QueueResult
    | RestartResult
    | SoakResult
    | OverloadResult
    | ExplainResult
    | ScaleResult
)
R = TypeVar("R")


def bench(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"{', '.join(_NAMES)}, all, list, or FILE.")
    ],
    nodes: given.Nodes = 0,
    pods: given.Pods = 0,
    first: given.First = -1,
    backend: given.Backends = None,
    create_mode: given.Mode = None,
    batch_size: given.BatchSize = 500,
    in_flight: given.InFlight = 32,
    rate: given.Rate = 0,
    replicas: given.Replicas = 1,
    evaluator: given.Evaluators = "local",
    without: given.Without = None,
    repeat: given.Repeat = 1,
    times: given.Times = 3,
    bound: given.Bound = 0,
    api_servers: given.ApiServers = 1,
    fault: given.Faults = None,
    most_growth: given.MostGrowth = MOST_GROWTH,
    max_nodes: given.MaxNodes = SCALE_NODES[-1],
    max_bound: given.MaxBound = BOUND[-1],
    seconds: given.Seconds = 0,
    plot: given.Plot = None,
    as_json: given.AsJson = False,
) -> None:
    """Measure throughput on a fresh cluster of real processes on this machine.

    A workload of your own is a YAML file (docs/performance.md). A result that
    breaks a constraint of a pod fails, however fast it was. Failover measures
    how long scheduling pauses when the leader is killed or stopped under load
    (--nodes, --bound, --rate, --api-servers, --fault, --times), Queue the
    cost of the scheduling queue's operations, scale that of a pod as nodes and
    bound pods increase. Soak lets pods come and go and fails if a process
    keeps growing. Overload measures what ten flooding clients do to others.
    Restart stops a whole system with --bound pods, starts it again on its data
    and measures the time until the first binding. Explain measures explanations
    and what they cost others. "all" leaves out the last five.
    """
    if workload == LIST:
        _list(as_json=as_json)
        return
    if plot is not None and workload in (ALL, FAILOVER, QUEUE, OVERLOAD, RESTART, EXPLAIN):
        fail(f"--plot: {workload} is not plotted", USAGE)
    backends = _backends(workload, backend, create_mode, plot)
    arguments = tuple(f"--without={one.value}" for one in without or ())
    mode, sizes = create_mode or CreateMode.BATCH, (replicas, api_servers, evaluator, rate)
    options = BenchOptions(mode, batch_size, in_flight, *sizes, scheduler_arguments=arguments)
    limits = ScaleLimits(max_nodes, max_bound, seconds)
    failover = FailoverLoad(nodes or FAILOVER_NODES, bound, rate or RATE, times)
    if fault:
        failover = replace(failover, faults=tuple(fault))
    asked = _Asked(nodes, pods, first, repeat, failover, most_growth, limits, backends)
    _measure(workload, asked, options, plot, as_json=as_json)


def _measure(
    workload: str, asked: _Asked, options: BenchOptions, plot: Path | None, *, as_json: bool
) -> None:
    problems = []
    for name, measure in _plan(workload, asked, options):
        result = measure()
        _tell(result, plot, as_json=as_json)
        problems += [f"{name}: {problem}" for problem in result.problems]
    if problems:
        fail("; ".join(problems), FAILED)


class _Asked(NamedTuple):
    """Sizes asked for; the defaults of ``bench`` stand for the workload's own."""

    nodes: int
    pods: int
    first: int
    repeat: int
    failover: FailoverLoad
    most_growth: float
    limits: ScaleLimits
    backends: tuple[BenchBackend, ...]

    @property
    def params(self) -> dict[str, int]:
        """The parameters of workloads that are replaced."""
        given = {"initNodes": self.nodes, "measurePods": self.pods}
        params = {name: number for name, number in given.items() if number}
        return params if self.first < 0 else {**params, "initPods": self.first}


def _backends(
    workload: str,
    backends: list[BenchBackend] | None,
    mode: CreateMode | None,
    plot: Path | None,
) -> tuple[BenchBackend, ...]:
    """Return the backends to measure; exits if the workload or the mode is not for them."""
    if BenchBackend.KUBERNETES in (backends or ()):
        if not _is_file(workload) and workload not in builtin_names():
            fail(f"--backend kubernetes: {workload} is measured with podsched's own API", USAGE)
        if mode not in (None, CreateMode.SINGLE):
            fail(f"--create-mode {mode}: Kubernetes' API creates single pods", USAGE)
    if plot is not None and len(backends or ()) > 1:
        fail("--plot: plots one backend", USAGE)
    return tuple(backends or (BenchBackend.PODSCHED,))


def _is_file(workload: str) -> bool:
    return workload.endswith((".yaml", ".yml"))


def _plan(
    name: str, asked: _Asked, options: BenchOptions
) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Yield what has to be measured, with its name; exits if there is no such workload."""
    if _is_file(name):
        for workload in _from_file(Path(name), asked):
            yield from _on_each_backend(workload, asked, options)
        return
    if name not in (*_NAMES, ALL):
        fail(f'unknown workload "{name}"; choose one of {", ".join(_NAMES)}, or a .yaml', USAGE)
    for each in _SPEED if name == ALL else (name,):
        if each in builtin_names():
            yield from _on_each_backend(sized(each, asked.params), asked, options)
        else:
            yield each, partial(_run_other, each, asked, options)


def _on_each_backend(
    workload: Workload, asked: _Asked, options: BenchOptions
) -> Iterator[tuple[str, Callable[[], Result]]]:
    for backend in asked.backends:
        chosen = options
        if backend == BenchBackend.KUBERNETES:
            chosen = replace(options, through_kube=True, create_mode=CreateMode.SINGLE)
        yield workload.name, partial(_run_workload, workload, asked, chosen)


def _from_file(path: Path, asked: _Asked) -> list[Workload]:
    try:
        workloads = load_workloads(path, asked.params)
    except ConfigError as exc:
        fail(str(exc), USAGE)
    except OSError as exc:
        fail(f"{path}: {exc.strerror or exc}", USAGE)
    for workload in workloads:
        if missing := asked.params.keys() - workload.params.keys():
            wanted = ", ".join(sorted(missing))
            fail(f"{path}: {workload.name} has no parameter {wanted}", USAGE)
    return workloads


def _run_workload(workload: Workload, asked: _Asked, options: BenchOptions) -> Result:
    runs = [
        _with_progress(lambda bar: asyncio.run(run_workload(workload, options, bar)))
        for _ in range(asked.repeat)
    ]
    return runs[0] if len(runs) == 1 else RepeatedResult(runs)


def _run_other(name: str, asked: _Asked, options: BenchOptions) -> Result:
    if name == QUEUE:
        return run_queue(asked.pods) if asked.pods else run_queue()
    if name == FAILOVER:
        return _with_progress(lambda bar: asyncio.run(run_failover(asked.failover, options, bar)))
    if name == RESTART:
        nodes, bound = asked.nodes or RESTART_NODES, asked.failover.bound or RESTART_BOUND
        return _with_progress(lambda bar: asyncio.run(run_restart(nodes, bound, options, bar)))
    if name == SOAK:
        pods, nodes = asked.pods or PODS, asked.nodes or NODES
        return _with_progress(
            lambda bar: asyncio.run(run_soak(pods, nodes, options, bar, asked.most_growth))
        )
    if name == SCALE:
        return _with_progress(lambda bar: asyncio.run(run_scale(asked.limits, options, bar)))
    size = (asked.nodes, asked.pods)
    if name == EXPLAIN:
        return _with_progress(lambda bar: asyncio.run(run_explain(*size, options, bar)))
    return _with_progress(lambda bar: asyncio.run(run_overload(*size, options, bar)))


def _tell(result: Result, plot: Path | None, *, as_json: bool) -> None:
    print(json.dumps(result.as_dict()) if as_json else "\n".join(result.lines()), flush=True)
    if plot is not None:
        _plot(result, plot)


def _plot(result: Result, path: Path) -> None:
    if isinstance(
        result,
        FailoverResult | QueueResult | OverloadResult | RestartResult | ExplainResult,
    ):
        return
    try:
        write_chart(path, result.chart())
    except OSError as exc:
        fail(f"--plot {path}: {exc.strerror}", FAILED)


def _list(*, as_json: bool) -> None:
    rows = [["WORKLOAD", "NODES", "INITIAL PODS", "MEASURED PODS"]]
    for workload in builtin_workloads().values():
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
