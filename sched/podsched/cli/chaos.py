"""``sched chaos``: break a whole system on purpose, and judge the history of it."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from podsched.app.supervisor import ProcessFailed
from podsched.chaos.faults.kinds import Kind, named
from podsched.chaos.history import load
from podsched.chaos.outcome import ChaosOutcome, judge
from podsched.chaos.records import HistoryError
from podsched.chaos.report import write_report
from podsched.chaos.run import ChaosOptions, run_chaos
from podsched.chaos.telling import around
from podsched.cli.chaos_progress import progress
from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.help_texts import Command, Group
from podsched.cli.output import say
from podsched.client.errors import ClientError
from podsched.store.errors import StoreError

app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write a report with a timeline (HTML)."),
]
#: The history's file in the data directory.
HISTORY = "history.jsonl"
#: Violations that are printed with what happened around them.
_TOLD = 5


@app.callback(invoke_without_command=True)
def chaos(
    ctx: typer.Context,
    seed: Annotated[
        int, typer.Option(min=-1, metavar="N", help="Seed of the plan; -1: a random one.")
    ] = -1,
    minutes: Annotated[
        float,
        typer.Option(min=0.1, max=1440, metavar="N", help="Minutes during which faults begin."),
    ] = 2.0,
    faults: Annotated[
        str,
        typer.Option(metavar="NAME[,...]", help="Faults to choose from, all by default; or list."),
    ] = "",
    ray: Annotated[
        bool, typer.Option("--ray", help="Have Ray actors evaluate and bind, and break Ray, too.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for history.jsonl, logs and etcd's data. Default: a temporary one, "
            "kept if a promise is broken.",
        ),
    ] = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Break a whole system on purpose, and check that it kept its promises.

    Starts 3 etcd members, 2 API servers, 3 scheduler replicas and an agent,
    uses them, kills, pauses, cuts off and overloads them as a seed plans it,
    and judges the history that was recorded. Exits with 1 if a promise was
    broken.
    """
    if ctx.invoked_subcommand is not None:
        return
    known = named(ray=ray)
    if faults == "list":
        say("\n".join(known))
        return
    chosen = _chosen(faults, known) if faults else known
    if seed < 0:
        seed = random.randrange(1_000_000)
    with _directory(data_dir) as directory:
        options = ChaosOptions(
            seed, minutes * 60, chosen, directory, directory / HISTORY, ray=ray, warn=warn
        )
        _run(options)
        tell(judge(load(options.history)), report, as_json=as_json)


@contextmanager
def _directory(wanted: Path | None) -> Iterator[Path]:
    """Yield the directory that is wanted, or one that stays only if the block fails."""
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


def _chosen(text: str, known: Mapping[str, Kind]) -> dict[str, Kind]:
    """Return the faults that were asked for; exit if one is not known."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in known:
            fail(f'--faults: there is no "{name}"; --faults list shows all', USAGE)
    return {name: known[name] for name in names}


def _run(options: ChaosOptions) -> None:
    """Run with a progress bar; exit if the system cannot be started or mended."""
    try:
        with progress(options.seconds) as told:
            asyncio.run(run_chaos(replace(options, tell=told)))
    except (ClientError, StoreError, ProcessFailed, TimeoutError, OSError) as exc:
        fail(f"seed {options.seed}: {exc or type(exc).__name__}", FAILED)


@app.command(cls=Command)
def check(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="File of a saved history.")],
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Judge a saved history; exit with 1 if it breaks a promise."""
    if not history.is_file():
        fail(f"{history}: no such file", USAGE)
    try:
        outcome = judge(load(history))
    except HistoryError as exc:
        fail(f"{history}: {exc}", FAILED)
    tell(outcome, report, as_json=as_json)


def tell(outcome: ChaosOutcome, report: Path | None, *, as_json: bool) -> None:
    """Print an outcome, and write a report if a file is given; exit with 1 for violations."""
    if report is not None:
        try:
            write_report(report, outcome)
        except OSError as exc:
            fail(f"--report {report}: {exc.strerror}", FAILED)
    if as_json:
        print(json.dumps(outcome.as_dict()))
    else:
        say("\n".join(outcome.lines()))
        for violation in outcome.violations[:_TOLD]:
            say(f"\n{violation.promise}: {violation.text} (at {violation.at:.3f} s)")
            for line in around(outcome.history, violation):
                say(f"  {line.at:9.3f}  {line.text}")
    if outcome.violations:
        count, seed = len(outcome.violations), outcome.history.begin.seed
        fail(f"seed {seed}: {count} violation{'' if count == 1 else 's'} of promises", FAILED)


__all__ = ["app"]
