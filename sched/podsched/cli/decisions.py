"""``sched decisions``: show decisions with their time, input and outcome."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.json_format import MessageToDict

from podsched.api.codec import parse_time
from podsched.api.objects import Timestamp, seconds_of
from podsched.cli.client import Namespace, Outage, ServerFlags, with_client
from podsched.cli.decision_tables import at_length, table_of_decisions
from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.flags import takes_flags
from podsched.cli.get import AllNamespaces
from podsched.cli.output import say
from podsched.cli.printers import Table
from podsched.config.durations import parse_duration
from podsched.config.flags import flag
from podsched.lib.counted import counted
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Unavailable
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsRequest, NodeTotal

_FORMATS = ("table", "wide", "json")
#: Max decisions that are shown, and that are read from files.
MOST, MOST_READ = 10_000, 1_000_000
#: Max decisions in one answer, and seconds to wait for it.
_PAGE, _TIMEOUT = 1000, 15.0
#: Seconds before the latest decision; decisions within them may still get their outcome.
_OPEN_FOR = 60.0
#: The latest time that a request can have, in microseconds: the end of the year 9999.
_LAST = 253_402_300_799_000_000
#: Seconds between two requests for new decisions.
_LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class _View:
    """How decisions are shown."""

    output: str
    one_pod: bool
    table: Table

    def show(self, records: Sequence[DecisionRecord]) -> None:
        if self.output == "json":
            for record in records:
                say(json.dumps(MessageToDict(record)))
        elif self.one_pod and self.output == "table":
            for record in records:
                say(*at_length(record))
        else:
            say(*self.table.lines(records, time.time()))


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    node: str = flag("", "NAME")
    """Only decisions for this node."""
    since: str = flag("", "TIME")
    """Only decisions since then: 10m (ago), or a time such as 2026-01-31T12:00:00Z."""
    reason: str = flag("", "TEXT")
    """Only decisions with this text in the outcome (Scheduled, Unschedulable, Error, Rejected,
    Overtaken, Gone) or in the message."""
    shadow: bool = flag(False)
    """Only decisions of a shadow configuration that differ."""
    limit: int = flag(100, "N", min=1, max=MOST)
    """Max number of decisions; the latest ones are shown."""
    watch: bool = flag(False, names="--watch -w")
    """Then show new decisions, until Ctrl-C."""
    output: str = flag("table", "FORMAT", names="--output -o")
    """table, wide (more columns), or json (one decision a line)."""
    file: Path | None = flag(None, "DIR")
    """Read the log in a scheduler's --decision-log DIR instead of asking."""
    replica: str = flag("", "NAME")
    """Replica to ask. Default: all of them."""
    export_to: Path | None = flag(None, "FILE", names="--export")
    """Write the decisions to FILE.jsonl or FILE.parquet instead of showing them."""


@takes_flags
def decisions(
    given: _Flags,
    pod: Annotated[str, typer.Argument(metavar="POD", help="One pod, in detail.")] = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Show the scheduler's decisions and their outcomes.

    With a POD, shows all details of its decisions.
    Examples: sched decisions -A; sched decisions web-0; sched decisions --reason unsched -w;
    sched decisions --file data/decisions/scheduler-0 --since 1h --export decisions.jsonl
    """
    _check(given, pod, all_namespaces)
    request = DecisionsRequest(
        namespace="" if all_namespaces else namespace,
        name=_pod_name(pod),
        node_name=given.node,
        reason=given.reason,
        shadow=given.shadow,
        replica=given.replica,
        limit=MOST_READ if given.export_to is not None else given.limit,
    )
    _set_since(request, _since(given.since))
    wide, shadow = given.output == "wide", given.shadow
    table = table_of_decisions(wide=wide, namespaces=all_namespaces, shadow=shadow)
    view = _View(given.output, bool(pod), table)

    async def work(look: Look) -> None:
        found = await look(request)
        if given.export_to is not None:
            count = export(found, given.export_to)
            say(f"{counted(count, 'decision')} written to {given.export_to}", error=True)
            return
        if found:
            view.show(found)
        elif not given.watch:
            say("No decisions found.", error=True)
        if given.watch:
            await follow(look, request, view, found)

    if given.file is not None:
        asyncio.run(work(_in_directory(given.file)))
    else:
        with_client(given.server, lambda client: work(_asking(client)), of_replicas=True)


def _check(given: _Flags, pod: str, all_namespaces: bool) -> None:
    """Exit if what is given does not go together."""
    if given.output not in _FORMATS:
        fail(f"--output: {given.output} is not one of {', '.join(_FORMATS)}", USAGE)
    if given.watch and given.export_to is not None:
        fail("--watch and --export cannot be used together", USAGE)
    if given.replica and given.file is not None:
        fail("--replica and --file cannot be used together: DIR is the log of one", USAGE)
    if pod and all_namespaces:
        fail("POD and --all-namespaces cannot be combined: use --namespace", USAGE)


Look = Callable[[DecisionsRequest], Awaitable[Sequence[DecisionRecord]]]
"""Returns the latest decisions that match, the oldest first."""
Known = dict[tuple[str, int], tuple[str, float]]
"""Outcomes and ends (Unix seconds) of decisions by replica and number.

Not the records: each would keep all the memory of its response.
"""


async def follow(
    look: Look, request: DecisionsRequest, view: _View, shown: Sequence[DecisionRecord]
) -> None:
    """Show new decisions, and show open ones again when their outcome is known.

    Decisions that ended before those ``shown`` were left out on purpose.
    """
    known: Known = {}
    unseen(known, shown)
    first = min((seconds_of(_ended(r)) for r in shown), default=0.0)
    # Of the replicas' clock, which this machine's may be ahead of.
    last = shown or await look(
        DecisionsRequest(namespace=request.namespace, replica=request.replica, limit=1)
    )
    latest = max((seconds_of(r.decided_time) for r in last), default=time.time())
    outage = Outage(_tell_outage)
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        again = deepcopy(request)
        again.limit = MOST
        _set_since(again, max(seconds_of(request.since), latest - _OPEN_FOR, first))
        try:
            found = await look(again)
        except Unavailable:
            outage(False)
            continue  # like any watch, it goes on when a server is there again
        outage(True)
        if new := unseen(known, found):
            view.show(new)
            latest = max(latest, *(seconds_of(r.decided_time) for r in new))
            forget(known, latest - 2 * _OPEN_FOR)


def _tell_outage(begins: bool) -> None:
    text = "No replica answers; trying again." if begins else "A replica answers again."
    say(text, error=True)


def unseen(known: Known, found: Iterable[DecisionRecord]) -> list[DecisionRecord]:
    """Return the decisions that are not known, or not with this outcome; from now on they are."""
    new = []
    for key, record in _by_number(found).items():
        if key not in known or known[key][0] != record.outcome:
            known[key] = record.outcome, seconds_of(_ended(record))
            new.append(record)
    return new


def forget(known: Known, before: float) -> None:
    """Forget the decisions that ended earlier, and are found no more; ``before``: Unix seconds."""
    for key in [key for key, (_, ended) in known.items() if ended < before]:
        del known[key]


def _by_number(records: Iterable[DecisionRecord]) -> dict[tuple[str, int], DecisionRecord]:
    return {(record.replica, record.number): record for record in records}


def _ended(record: DecisionRecord) -> Timestamp:
    """Return when a decision ended; if it is open, when it was made."""
    return record.ended_time if record.HasField("ended_time") else record.decided_time


def _asking(client: ApiClient) -> Look:
    """Return a function that gets decisions from replicas page by page, the latest first."""

    async def look(request: DecisionsRequest) -> Sequence[DecisionRecord]:
        page = deepcopy(request)
        page.limit = min(_PAGE, request.limit)
        found: dict[tuple[str, int], DecisionRecord] = {}
        while len(found) < request.limit:
            answer = await client.decisions(page, timeout=_TIMEOUT)
            before = len(found)
            for key, record in _by_number(answer.records).items():
                found.setdefault(key, record)
            if not answer.more or len(found) == before:
                break
            # The next page repeats decisions that ended at this time; ``found`` has them once.
            page.until.CopyFrom(min(map(_ended, answer.records), key=seconds_of))
        records = sorted(found.values(), key=lambda r: (seconds_of(r.decided_time), r.number))
        return records[-request.limit :]

    return look


@dataclass(slots=True)
class _Broken:
    """Counts the parts of a log that cannot be read: there may be millions."""

    number: int = 0
    first: str = ""

    def __call__(self, why: str) -> None:
        self.number += 1
        self.first = self.first or why


def _in_directory(directory: Path) -> Look:
    from podsched.ask.decisions.rows import DecisionQuery, find
    from podsched.ask.decisions.stores import read_segments, segment_paths

    if not directory.is_dir():
        fail(f"--file: {directory}: no such directory", USAGE)
    if not segment_paths(directory) and not (directory / "lock").is_file():
        fail(
            f"--file: {directory}: no decision log: give one replica's --decision-log, such as "
            "decisions/scheduler-0 in the --data-dir of sched up",
            USAGE,
        )

    told = _Broken()

    async def look(request: DecisionsRequest) -> Sequence[DecisionRecord]:
        nonlocal told
        broken = _Broken()
        query = DecisionQuery.of(request, MOST_READ)
        found = find(read_segments(directory, broken), query, broken)
        if broken not in (told, _Broken()):
            what = f"{broken.number:,} broken parts were skipped: {broken.first}"
            warn(f"--file: {directory}: {what}")
        told = broken
        return found

    return look


def _set_since(request: DecisionsRequest, since: float) -> None:
    if since:
        request.since.FromMicroseconds(min(max(0, round(since * 1e6)), _LAST))


def _since(text: str) -> float:
    """Return Unix seconds; exit if the text is neither a positive duration nor a time."""
    if not text:
        return 0.0
    with suppress(ValueError):
        if (ago := parse_duration(text)) >= 0:
            return time.time() - ago
    try:
        return seconds_of(parse_time(text))
    except ValueError:
        fail(f'--since: "{text}" is neither a duration such as 10m nor a time', USAGE)


def _pod_name(text: str) -> str:
    """Return the name of a pod given as NAME or pod/NAME; exit if it is of another kind."""
    kind, _, name = text.rpartition("/")
    if kind not in ("", "pod", "pods", "po") or (text and not name):
        fail(f'"{text}" is not the name of a pod', USAGE)
    return name


def export(records: Sequence[DecisionRecord], path: Path) -> int:
    """Write decisions to a file; return how many. Exits if the name has no known suffix."""
    if path.suffix == ".jsonl":
        lines = (json.dumps(MessageToDict(record)) + "\n" for record in records)
        with path.open("w") as file:
            file.writelines(lines)
    elif path.suffix == ".parquet":
        _parquet(records, path)
    else:
        fail(f"--export: {path}: the name must end in .jsonl or .parquet", USAGE)
    return len(records)


def _parquet(records: Sequence[DecisionRecord], path: Path) -> None:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        fail("--export to Parquet needs pyarrow: install podsched with its extra parquet", FAILED)
    plain = {bool: arrow.bool_(), str: arrow.string(), int: arrow.int64(), float: arrow.float64()}
    plugins = arrow.map_(arrow.string(), arrow.int64())
    score = [("node_name", arrow.string()), ("total", arrow.int64()), ("plugins", plugins)]
    own: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "scores": (arrow.list_(arrow.struct(score)), lambda scores: list(map(_score, scores))),
        "plugin_seconds": (arrow.map_(arrow.string(), arrow.float64()), lambda s: list(s.items())),
    }
    stamp = arrow.timestamp("us", tz="UTC"), Timestamp.ToDatetime
    columns = {}
    for each in DecisionRecord.DESCRIPTOR.fields:
        type_, plainly = own.get(each.name) or (
            stamp if each.message_type else (plain[type(each.default_value)], lambda value: value)
        )
        cells = [
            plainly(getattr(record, each.name))
            if not each.has_presence or record.HasField(each.name)
            else None
            for record in records
        ]
        columns[each.name] = arrow.array(cells, type_)
    parquet.write_table(arrow.table(columns), path)


def _score(score: NodeTotal) -> dict[str, Any]:
    plugins = list(score.plugins.items())
    return {"node_name": score.node_name, "total": score.total, "plugins": plugins}
