"""``sched decisions``: what was decided, when, on which grounds, and what became of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsched.api.codec import parse_time
from podsched.cli.client import Namespace
from podsched.cli.decision_export import export
from podsched.cli.decision_tables import HEADINGS, SHADOW, WIDE, WIDTHS, at_length, rows, seconds
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.get import AllNamespaces
from podsched.cli.output import say
from podsched.cli.printers import aligned
from podsched.config.durations import parse_duration

if TYPE_CHECKING:
    from podsched.engine.decisions.rows import DecisionQuery
    from podsched.v1.decisions_pb2 import DecisionRecord

_FORMATS = ("table", "wide", "json")
#: Decisions shown at most, and read from files at most.
MOST, MOST_READ = 10_000, 1_000_000
#: Seconds between two looks for new ones.
_LOOK_EVERY = 0.5

Since = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="Since then: 10m (ago), or a time such as 2026-01-31T12:00:00Z."
    ),
]
Reason = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        help="With this in the outcome (Scheduled, Unschedulable, Error, Rejected, Overtaken, "
        "Gone) or in the message.",
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Write them to FILE.jsonl or FILE.parquet instead of showing them.",
    ),
]


@dataclass(frozen=True, slots=True)
class _View:
    """How decisions are shown."""

    output: str
    namespaces: bool
    shadow: bool
    one_pod: bool

    def show(self, records: Sequence[DecisionRecord], *, first: bool) -> None:
        if self.output == "json":
            from google.protobuf.json_format import MessageToDict

            for record in records:
                say(json.dumps(MessageToDict(record)))
        elif self.one_pod and self.output == "table":
            for record in records:
                say("\n".join(at_length(record, namespaces=self.namespaces)))
        else:
            wide = self.output == "wide"
            cells = rows(records, wide=wide, namespaces=self.namespaces, shadow=self.shadow)
            heading = ((*(SHADOW if self.shadow else HEADINGS), *(WIDE if wide else ())),)
            lines = aligned([*heading, *cells], WIDTHS)
            say("\n".join(lines if first else lines[1:]))


def decisions(
    pod: Annotated[str, typer.Argument(metavar="[POD]", help="Of one pod, at length.")] = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    node: Annotated[str, typer.Option(metavar="NAME", help="That chose this node.")] = "",
    since: Since = "",
    reason: Reason = "",
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Of a shadow configuration, where it differs.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST, metavar="N", help="The latest so many.")
    ] = 100,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on with new ones, until Ctrl-C.")
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="table, wide (more columns), or json (one decision a line).",
        ),
    ] = "table",
    file: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Read the log in a scheduler's --decision-log DIR."),
    ] = None,
    export_to: Export = None,
) -> None:
    """Show the scheduler's decisions, and what became of them.

    When, where to, with which score, on which grounds; at length those on one POD.
    Examples: sched decisions -A; sched decisions web-0; sched decisions --reason unsched -w;
    sched decisions --file data/decisions/scheduler-0 --since 1h --export decisions.jsonl
    """
    from podsched.engine.decisions.rows import DecisionQuery

    if output not in _FORMATS:
        fail(f"--output: {output} is none of {', '.join(_FORMATS)}", USAGE)
    if watch and export_to is not None:
        fail("--watch and --export cannot be used together", USAGE)
    query = DecisionQuery(
        namespace="" if all_namespaces and not pod else namespace,
        name=pod,
        node_name=node,
        since=_since(since),
        reason=reason,
        shadow=shadow,
        limit=MOST_READ if export_to is not None else limit,
    )
    view = _View(output, all_namespaces, shadow, bool(pod))
    look = _in_directory(file)
    if export_to is not None:
        count = export(look(query), export_to)
        say(f"{count} decisions written to {export_to}", error=True)
        return
    _show(look, query, view, watch=watch)


Look = Callable[["DecisionQuery"], "Sequence[DecisionRecord]"]


def _show(look: Look, query: DecisionQuery, view: _View, *, watch: bool) -> None:
    found = look(query)
    if found:
        view.show(found, first=True)
    elif not watch:
        say("No decisions found.", error=True)
    if watch:
        _follow(look, query, view, found)


def _follow(look: Look, query: DecisionQuery, view: _View, shown: Sequence[DecisionRecord]) -> None:
    """Show new decisions, and those again whose outcome was open."""
    known = {(r.replica, r.number): r.outcome for r in shown}
    since = max((seconds(r.decided_time) for r in shown), default=time.time())
    first = not shown
    while True:
        time.sleep(_LOOK_EVERY)
        # Decisions come into the log in the order in which they end.
        found = look(replace(query, since=since - 60.0, limit=MOST))
        new = [r for r in found if known.get((r.replica, r.number)) not in (r.outcome,)]
        if new:
            view.show(new, first=first)
            first = False
            known |= {(r.replica, r.number): r.outcome for r in new}
            since = max(since, *(seconds(r.decided_time) for r in new))


def _in_directory(directory: Path | None) -> Look:
    from podsched.engine.decisions.reading import find
    from podsched.engine.decisions.stores import read_segments, segment_paths

    if directory is None:
        fail("--file DIR is needed", USAGE)
    if not directory.is_dir():
        fail(f"--file: {directory}: no such directory", USAGE)
    if not segment_paths(directory) and not (directory / "lock").is_file():
        fail(
            f"--file: {directory}: no decisions-*.jsonl.zst in it: is it a --decision-log?", FAILED
        )
    return lambda query: find(read_segments(directory), query)


def _since(text: str) -> float:
    """Return Unix seconds; exit if the text is neither a duration nor a time."""
    if not text:
        return 0.0
    try:
        return time.time() - parse_duration(text)
    except ValueError:
        pass
    try:
        return seconds(parse_time(text))
    except ValueError:
        fail(f'--since: "{text}" is neither a duration such as 10m nor a time', USAGE)


__all__ = ["decisions"]
