"""``sched chaos``: inject faults into a whole system, and check its history."""

from __future__ import annotations

import json
import math
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.supervisor import ProcessFailed
from podsched.cli.errors import FAILED, USAGE, fail, fail_on, file_or_fail, warn
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, Group
from podsched.cli.output import say
from podsched.cli.unknown_names import suggestion
from podsched.config.flags import flag
from podsched.lab.chaos.clocks import library
from podsched.lab.chaos.faults.kinds import KINDS, Kind, Need, named
from podsched.lab.chaos.history import load
from podsched.lab.chaos.namespaces import NamespacesUnavailable, enter
from podsched.lab.chaos.outcome import ChaosOutcome, judge
from podsched.lab.chaos.records import HistoryError
from podsched.lab.chaos.report import around, page
from podsched.lab.chaos.run import ChaosOptions, Status, run_chaos
from podsched.lib.tasks import run_and_tidy_up
from podsched.serve.client.errors import ClientError
from podsched.serve.store.errors import StoreError
from podsched.telemetry.log_output import configure_logging

app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Report = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a report with a timeline (HTML).")
]
#: The history's file in the data directory.
HISTORY = "history.jsonl"
#: Max violations that are printed with the events around them.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Flags:
    minutes: float = flag(2.0, "N", min=0.1, max=1440)
    """Minutes during which faults begin."""
    faults: str = flag("", "NAME[,...]")
    """Faults to choose from, all by default; or list."""
    ray: bool = flag(False)
    """Use Ray actors to evaluate and bind, and break Ray, too."""
    namespaces: bool = flag(False)
    """Run each replica in its own network namespace, and lose packets, too; needs root."""
    data_dir: Path | None = flag(None, "DIR")
    """Directory for history.jsonl, logs and etcd's data. Default: a temporary one, kept if a
    promise is broken."""
    seed: int = flag(-1, "N", min=-1)
    """Seed of the plan; -1: a random one."""


@app.callback(invoke_without_command=True)
@takes_flags
def chaos(
    ctx: typer.Context, given: _Flags, report: Report = None, as_json: AsJson = False
) -> None:
    """Inject faults into a whole system, and check its guarantees.

    Starts 3 etcd members, 2 API servers, 3 scheduler replicas and an agent. Uses them while it
    kills, pauses, disconnects and overloads them by a plan from a seed, and checks the recorded
    history. Exits with 1 if a promise was broken.
    """
    if ctx.invoked_subcommand is not None:
        return
    met = _met(ray=given.ray, namespaces=given.namespaces)
    known = named(met)
    if given.faults == "list":
        say(*_listed(met))
        return
    chosen = _chosen(given.faults, known, given.minutes) if given.faults else known
    seed = random.randrange(1_000_000) if given.seed < 0 else given.seed
    if given.namespaces:
        _enter(ray=given.ray)
    with _directory(given.data_dir) as directory:
        options = ChaosOptions(
            data_dir=directory,
            seed=seed,
            seconds=given.minutes * 60,
            kinds=chosen,
            history=directory / HISTORY,
            ray=given.ray,
            namespaces=given.namespaces,
            clocks=any(kind.need is Need.CLOCKS for kind in chosen.values()),
        )
        _run(options)
        show_outcome(judge(load(options.history)), report, as_json=as_json)


def _met(*, ray: bool, namespaces: bool) -> set[Need]:
    """Return the needs of faults that this machine and the options meet."""
    has = {Need.RAY: ray, Need.NAMESPACES: namespaces, Need.CLOCKS: bool(library())}
    return {need for need, met in has.items() if met}


def _listed(met: Collection[Need]) -> Iterator[str]:
    """Yield the names of the faults that are possible, and why others are left out."""
    for name, kind in KINDS.items():
        if kind.need is None or kind.need in met:
            yield name
        elif kind.need is Need.CLOCKS:
            yield f"{name} (left out: libfaketime is not installed; Debian: apt install faketime)"


def _enter(*, ray: bool) -> None:
    """Enter a network namespace; exit if that is impossible."""
    if ray:
        fail("--namespaces: replicas there do not reach Ray; leave out --ray", USAGE)
    with fail_on(NamespacesUnavailable, about="--namespaces", code=USAGE):
        enter()


@contextmanager
def _directory(wanted: Path | None) -> Iterator[Path]:
    """Yield the given directory, or one that is kept only if the block fails."""
    if wanted is not None:
        if wanted.is_dir() and any(wanted.iterdir()):
            fail(f"--data-dir: {wanted} is not empty", USAGE)
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="podsched-chaos-"))
    try:
        yield made
    except BaseException:
        say(f"history and logs: {made}", error=True)
        raise
    shutil.rmtree(made, ignore_errors=True)


def _chosen(text: str, known: Mapping[str, Kind], minutes: float) -> dict[str, Kind]:
    """Return the requested faults; exit if one is unknown or lasts too long."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name in known:
            _check_time(name, known[name], minutes)
            continue
        if name in KINDS and (need := KINDS[name].need) is not None:
            fail(f'--faults: "{name}" is only for where {need.value}', USAGE)
        choice = suggestion(name, known) or "; --faults list shows all"
        fail(f'--faults: there is no "{name}"{choice}', USAGE)
    return {name: known[name] for name in names}


def _check_time(name: str, kind: Kind, minutes: float) -> None:
    """Exit if a run of this length leaves out a fault."""
    least = kind.shortest_run / 60
    if minutes < least:
        needed = math.ceil(least * 10) / 10
        seconds = f"{kind.longest:g} s"
        fail(
            f"--faults: {name} may last {seconds}, which takes --minutes {needed:g} or more", USAGE
        )


def _run(options: ChaosOptions) -> None:
    """Run with a progress bar; exit if the system cannot be started or repaired."""
    configure_logging("text", "warning")  # to stderr, where no --json is
    try:
        with progress(options.seconds) as show:
            run_and_tidy_up(run_chaos(replace(options, tell=show, warn=warn)))
    except (ClientError, StoreError, ProcessFailed, TimeoutError, OSError) as exc:
        fail(f"seed {options.seed}: {str(exc) or type(exc).__name__}", FAILED)


@app.command(cls=Command)
def check(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="File of a saved history.")],
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Check a saved history; exit with 1 if a promise is broken."""
    file_or_fail("", history)
    with fail_on(HistoryError, about=history, code=USAGE):
        outcome = judge(load(history))
    show_outcome(outcome, report, as_json=as_json)


def show_outcome(outcome: ChaosOutcome, report: Path | None, *, as_json: bool) -> None:
    """Print an outcome, and write a report if a file is given; exit with 1 for violations."""
    if report is not None:
        with fail_on(OSError, about=f"--report {report}"):
            report.write_text(page(outcome), encoding="utf-8")
    if as_json:
        print(json.dumps(outcome.as_dict()))
    else:
        say(*outcome.lines())
        for violation in outcome.violations[:_SHOWN]:
            say(f"\n{violation.promise}: {violation.text} (at {violation.at:.3f} s)")
            for line in around(outcome.history, violation):
                say(f"  {line.at:9.3f}  {line.text}")
    if outcome.violations:
        seed = outcome.history.begin.seed
        fail(f"seed {seed}: {outcome.count_of_violations} of promises", FAILED)


@contextmanager
def progress(seconds: float) -> Iterator[Callable[[Status], None]]:
    """Yield a function to call with each status.

    It shows a bar and the current faults; for a pipe it prints a line for each change of the
    faults.
    """
    if not sys.stderr.isatty():
        last: tuple[str, tuple[str, ...]] | None = None

        def line(status: Status) -> None:
            nonlocal last
            if (status.stage, status.broken) != last:
                last = (status.stage, status.broken)
                say(f"{status.now:7.1f} s  {status.stage}  {_text(status)}", error=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    # The text about faults gets the rest of the line; a longer one is cut.
    columns = (
        TextColumn("{task.fields[stage]:>9}", table_column=Column(no_wrap=True, min_width=9)),
        BarColumn(bar_width=10, table_column=Column(min_width=10)),
        TextColumn("{task.fields[now]:>4.0f} s", table_column=Column(no_wrap=True, min_width=6)),
        TextColumn(
            "{task.fields[text]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bars:
        task = bars.add_task("", total=seconds, stage="starting", now=0.0, text="")

        def show(status: Status) -> None:
            bars.update(
                task,
                completed=status.broken_for,
                stage=status.stage,
                now=status.now,
                text=_text(status),
            )

        yield show


def _text(status: Status) -> str:
    leader = status.leader or "no leader"
    broken = "; ".join(status.broken) or "nothing is broken"
    return f"{leader}, {status.bound} bound, {status.waiting} waiting | {broken}"
