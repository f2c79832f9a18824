"""``sched bench``: run a workload on real processes and print the results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from podsched.app.supervisor import ProcessFailed
from podsched.cli.errors import FAILED, UNREACHABLE, USAGE, fail, fail_on, file_or_fail
from podsched.cli.flags import takes_flags
from podsched.cli.printers import aligned
from podsched.cli.unknown_names import suggestion
from podsched.config.errors import ConfigError
from podsched.config.flags import flag
from podsched.config.settings import Accelerator
from podsched.lab.bench.cluster import BenchOptions, Progress
from podsched.lab.bench.compare import NODES as COMPARE_NODES
from podsched.lab.bench.compare import PODS as COMPARE_PODS
from podsched.lab.bench.compare import CompareOptions, run_compare
from podsched.lab.bench.control_plane import NotComparableError
from podsched.lab.bench.every_fault import run_every_fault
from podsched.lab.bench.explaining import run_explain
from podsched.lab.bench.failover import NODES as FAILOVER_NODES
from podsched.lab.bench.failover import RATE, FailoverLoad, run_failover
from podsched.lab.bench.ops import Workload
from podsched.lab.bench.overload import run_overload
from podsched.lab.bench.queueing import run_queue
from podsched.lab.bench.restart import BOUND as RESTART_BOUND
from podsched.lab.bench.restart import NODES as RESTART_NODES
from podsched.lab.bench.restart import run_restart
from podsched.lab.bench.results import RepeatedResult
from podsched.lab.bench.runner import run_workload
from podsched.lab.bench.scale import BOUND, ScaleLimits, run_scale
from podsched.lab.bench.scale import NODES as SCALE_NODES
from podsched.lab.bench.soak import MOST_GROWTH, NODES, PODS, run_soak
from podsched.lab.bench.workload_file import MOST, builtin_workloads, load_workloads, sized
from podsched.lib.tasks import run_and_tidy_up
from podsched.serve.client.errors import ClientError, Unavailable
from podsched.serve.store.errors import StoreError
from podsched.telemetry.log_output import configure_logging

ALL, FAILOVER, QUEUE, LIST, SCALE = "all", "Failover", "Queue", "list", "scale"
SOAK, OVERLOAD, RESTART, EXPLAIN = "Soak", "Overload", "Restart", "Explain"
COMPARE = "compare"
#: The benchmarks that "all" runs. The others take minutes, and do not measure throughput.
_SPEED = (*builtin_workloads(), FAILOVER, QUEUE)
_NAMES = (*_SPEED, SOAK, OVERLOAD, RESTART, EXPLAIN, SCALE, COMPARE)
_FILES = (".yaml", ".yml")
_UNPLOTTED = (FAILOVER, QUEUE, OVERLOAD, RESTART, EXPLAIN, COMPARE)

R = TypeVar("R")


#: How a benchmark creates its pods.
CreateMode = Literal["batch", "single", "stream", "rest"]
#: The API that a benchmark's scheduler and client use. Not a Literal: Typer takes no lists of them.
BenchBackend = StrEnum("BenchBackend", ["PODSCHED", "KUBERNETES"])


class Fault(StrEnum):
    """What ``sched bench Failover`` does to the leader."""

    SIGKILL = "SIGKILL"
    SIGTERM = "SIGTERM"
    SIGSTOP = "SIGSTOP"
    PARTITION = "partition"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class _Flags(BenchOptions):
    nodes: int = flag(0, "N", min=0)
    """Number of nodes; 0: as in the workload."""
    pods: int = flag(0, "N", min=0)
    """Number of measured pods; 0: as in the workload."""
    first: int = flag(-1, "N", min=-1)
    """Number of initial pods; -1: as in the workload."""
    backend: tuple[BenchBackend, ...] = flag((BenchBackend.PODSCHED,), show_default=False)
    """podsched: gRPC; kubernetes: scheduler and client speak Kubernetes' REST API. May be repeated,
    to compare. [podsched]"""
    mode: CreateMode | None = flag(None, names="--create-mode")
    """batch: many pods per call; single: one call per pod; stream: one message per pod on one
    stream; rest: one request of Kubernetes' REST API per pod, while the scheduler speaks gRPC.
    [batch, but single with kubernetes]"""
    without: tuple[Accelerator, ...] = flag(())
    """Turn off an accelerator of decisions, to measure what it saves; may be repeated."""
    repeat: int = flag(1, "N", min=1)
    """Runs per workload; the median and the spread are reported."""
    times: int = flag(3, "N", min=1)
    """Rounds of Failover per fault, or of compare."""
    bound: int = flag(0, "N", min=0)
    """Number of pods that are bound before Failover or Restart begins."""
    fault: tuple[Fault, ...] = flag((Fault.SIGKILL, Fault.SIGTERM), show_default=False)
    """What Failover does to the leader; may be repeated. all: each single fault of sched chaos, to
    any process or link of a larger system. [SIGKILL, SIGTERM]"""
    most_growth: float = flag(MOST_GROWTH, "BYTES", min=0.0)
    """Max growth of memory per pod; with more, Soak fails."""
    max_nodes: int = flag(SCALE_NODES[-1], "N", min=1)
    """Max number of nodes for scale."""
    max_bound: int = flag(BOUND[-1], "N", min=0)
    """Max number of bound pods for scale."""
    seconds: float = flag(0, "N", min=0)
    """Time after which scale begins no further size; 0: no limit."""
    kubeconfig: Path | None = flag(None, "FILE")
    """The Kubernetes cluster on which compare measures; an empty one for tests."""
    control_plane: Path | None = flag(None, "DIRECTORY")
    """Directory of kube-scheduler for compare; without --kubeconfig also of kube-apiserver and
    etcd, which are started."""
    shared_cluster: bool = flag(False)
    """Let compare use a cluster that has other nodes, or pods that wait."""
    plot: Path | None = flag(None, "FILE")
    """Write a chart (SVG): throughput over time, Soak's memory, or scale's cost per pod."""
    as_json: bool = flag(False, names="--json")
    """Print results as JSON, one line per workload."""

    @property
    def params(self) -> dict[str, int]:
        """The workload parameters to replace."""
        given = {"initNodes": self.nodes, "measurePods": self.pods}
        params = {name: number for name, number in given.items() if number}
        return params if self.first < 0 else {**params, "initPods": self.first}


@takes_flags
def bench(
    workload: Annotated[
        str, typer.Argument(metavar="WORKLOAD", help=f"{', '.join(_NAMES)}, all, list, or FILE.")
    ],
    given: _Flags,
) -> None:
    """Measure throughput on a fresh cluster of real processes on this machine.

    A workload of your own is a YAML file (docs/workloads.md). A result that
    breaks a constraint of a pod fails, however fast it was. Failover measures
    how long scheduling pauses when the leader is killed or stopped under load
    (--nodes, --bound, --rate, --api-servers, --fault, --times), Queue the
    cost of the scheduling queue's operations, scale that of a pod as nodes and
    bound pods increase. Soak lets pods come and go and fails if a process
    keeps growing. Overload measures what ten flooding clients do to others.
    Restart stops a whole system with --bound pods, starts it again on its data
    and measures the time until the first binding. Explain measures explanations
    and what they cost others. compare measures kube-scheduler and podsched in
    turns on one Kubernetes cluster (--kubeconfig, --control-plane, --nodes,
    --pods, --times). "all" leaves out the last six.
    """
    if workload == LIST:
        _list(as_json=given.as_json)
        return
    _check(workload, given)
    configure_logging("text", "warning")
    without = tuple(f"--without={name}" for name in given.without)
    options = replace(given, create_mode=given.mode or "batch", scheduler_arguments=without)
    benchmarks, problems = list(_plan(workload, given, options)), []
    if given.plot is not None:
        # Only after minutes would the chart show that it cannot be written.
        with fail_on(OSError, about=f"--plot {given.plot}"):
            given.plot.open("a").close()
    for name, measure in benchmarks:
        result = measure()
        print(json.dumps(result.as_dict()) if given.as_json else "\n".join(result.lines()))
        sys.stdout.flush()
        if given.plot is not None:
            with fail_on(OSError, about=f"--plot {given.plot}"):
                given.plot.write_text(result.chart(), encoding="utf-8")
        problems += [f"{name}: {problem}" for problem in result.problems]
    if problems:
        fail("; ".join(problems), FAILED)


def _check(workload: str, given: _Flags) -> None:
    """Exit if the options do not apply to the workload."""
    if given.plot is not None and (workload == ALL or workload in _UNPLOTTED):
        fail(f"--plot: {workload} is not plotted", USAGE)
    if BenchBackend.KUBERNETES in given.backend:
        if not workload.endswith(_FILES) and workload not in builtin_workloads():
            fail(f"--backend kubernetes: {workload} is measured with podsched's own API", USAGE)
        if given.mode not in (None, "single"):
            fail(f"--create-mode {given.mode}: Kubernetes' API creates single pods", USAGE)
    if given.plot is not None and len(given.backend) > 1:
        fail("--plot: only one backend can be plotted", USAGE)
    if workload == COMPARE and given.control_plane is None:
        fail("compare: --control-plane must name a directory with kube-scheduler", USAGE)
    if workload in (*builtin_workloads(), ALL, COMPARE):
        for name in ("nodes", "pods", "first"):
            if getattr(given, name) > MOST:
                fail(f"--{name}: must be at most {MOST:,}", USAGE)
    file_or_fail("--kubeconfig", given.kubeconfig)


def _plan(
    name: str, given: _Flags, options: BenchOptions
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the benchmarks to run with their names; exits for an unknown one."""
    if name.endswith(_FILES):
        for workload in _from_file(Path(name), given.params):
            yield from _on_each_backend(workload, given, options)
        return
    if name not in (*_NAMES, ALL):
        choice = suggestion(name, _NAMES) or f"; choose one of {', '.join(_NAMES)}, or a .yaml file"
        fail(f'unknown workload "{name}"{choice}', USAGE)
    for each in _SPEED if name == ALL else (name,):
        if each in builtin_workloads():
            yield from _on_each_backend(sized(each, given.params), given, options)
        elif each == QUEUE:
            yield each, partial(run_queue, *([given.pods] if given.pods else []))
        else:
            yield each, partial(_with_progress, _others(given, options)[each])


def _on_each_backend(
    workload: Workload, given: _Flags, options: BenchOptions
) -> Iterator[tuple[str, Callable[[], Any]]]:
    for backend in given.backend:
        chosen = options
        if backend == BenchBackend.KUBERNETES:
            chosen = replace(options, through_kube=True, create_mode="single")
        yield workload.name, partial(_run_workload, workload, given.repeat, chosen)


def _from_file(path: Path, params: dict[str, int]) -> list[Workload]:
    with fail_on(OSError, about=path, code=USAGE), fail_on(ConfigError, code=USAGE):
        workloads = load_workloads(path, params)
    for workload in workloads:
        if missing := params.keys() - workload.params.keys():
            wanted = ", ".join(sorted(missing))
            fail(f"{path}: {workload.name} has no parameter {wanted}", USAGE)
    return workloads


def _run_workload(workload: Workload, repeat: int, options: BenchOptions) -> Any:
    runs = [_with_progress(partial(run_workload, workload, options)) for _ in range(repeat)]
    return runs[0] if len(runs) == 1 else RepeatedResult(runs)


def _others(
    given: _Flags, options: BenchOptions
) -> dict[str, Callable[[Progress], Coroutine[Any, Any, Any]]]:
    """Return the benchmarks that are not workloads, by name."""
    nodes, pods, bound = given.nodes, given.pods, given.bound
    load = FailoverLoad(
        nodes or FAILOVER_NODES, bound, given.rate or RATE, given.times, given.fault
    )
    limits = ScaleLimits(given.max_nodes, given.max_bound, given.seconds)
    comparison = CompareOptions(
        given.control_plane or Path(),
        given.kubeconfig,
        nodes or COMPARE_NODES,
        pods or COMPARE_PODS,
        given.times,
        given.shared_cluster,
    )
    return {
        FAILOVER: partial(run_every_fault, load, ray=options.evaluator == "ray")
        if Fault.ALL in given.fault
        else partial(run_failover, load, options),
        RESTART: partial(run_restart, nodes or RESTART_NODES, bound or RESTART_BOUND, options),
        SOAK: partial(
            run_soak, pods or PODS, nodes or NODES, options, most_growth=given.most_growth
        ),
        SCALE: partial(run_scale, limits, options),
        EXPLAIN: partial(run_explain, nodes, pods, options),
        OVERLOAD: partial(run_overload, nodes, pods, options),
        COMPARE: partial(run_compare, comparison),
    }


def _list(*, as_json: bool) -> None:
    rows = [["WORKLOAD", "NODES", "INITIAL PODS", "MEASURED PODS"]]
    for workload in builtin_workloads().values():
        sizes = {"nodes": workload.nodes, "first": workload.first, "pods": workload.pods}
        if as_json:
            print(json.dumps({"workload": workload.name, **sizes}))
        rows.append([workload.name, *(f"{size:,}" for size in sizes.values())])
    if not as_json:
        print("\n".join(aligned(rows)))


def _with_progress(measure: Callable[[Progress], Coroutine[Any, Any, R]]) -> R:
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

            return run_and_tidy_up(measure(progress))
    except (ConfigError, NotComparableError) as exc:
        fail(str(exc), USAGE)
    except Unavailable as exc:
        fail(str(exc), UNREACHABLE)
    except (ClientError, StoreError, ProcessFailed, TimeoutError) as exc:
        fail(str(exc) or "timed out", FAILED)
