"""``sched chaos``: judge the history of a system that was broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from podsched.chaos.history import load
from podsched.chaos.outcome import ChaosOutcome, judge
from podsched.chaos.records import HistoryError
from podsched.chaos.telling import around
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.help_texts import Command, Group
from podsched.cli.output import say

app = typer.Typer(
    help="Break a whole system on purpose, and check that it kept its promises.",
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
#: Violations that are printed with what happened around them.
_TOLD = 5


@app.callback()
def _chaos() -> None:
    pass


@app.command(cls=Command)
def check(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="File of a saved history.")],
    as_json: AsJson = False,
) -> None:
    """Judge a saved history; exit with 1 if it breaks a promise."""
    if not history.is_file():
        fail(f"{history}: no such file", USAGE)
    try:
        outcome = judge(load(history))
    except HistoryError as exc:
        fail(f"{history}: {exc}", FAILED)
    tell(outcome, as_json=as_json)


def tell(outcome: ChaosOutcome, *, as_json: bool) -> None:
    """Print an outcome; exit with 1 if promises were broken."""
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
