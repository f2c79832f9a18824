"""How ``sched decisions`` shows decisions: a table, and at length those of one pod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.cli.printers import NONE, aligned
from podsched.v1.decisions_pb2 import DecisionRecord

HEADINGS = ("TIME", "POD", "TRY", "NODE", "SCORE", "FIT", "OUTCOME")
WIDE = ("TOOK", "REPLICA", "TERM", "REVISION", "ALIKE", "CLASS", "MESSAGE")
SHADOW = ("TIME", "POD", "BOUND TO", "SHADOW", "SCORE", "FIT", "PROFILE")
#: Columns of these at least, so that lines that come later stand below the first ones.
WIDTHS = (12, 12, 3, 9, 3, 5)


def seconds(stamp: Timestamp) -> float:
    """Return Unix seconds, 0.0 where the time is not set."""
    return stamp.seconds + stamp.nanos / 1e9


def clock(stamp: Timestamp) -> str:
    """Return the local time of day, to the millisecond."""
    return datetime.fromtimestamp(seconds(stamp)).strftime("%H:%M:%S.%f")[:-3]


def duration(of: float) -> str:
    """Return a duration with three digits: 0.12ms, 3.4ms, 1.2s."""
    return f"{of:.3g}s" if of >= 1 else f"{of * 1e3:.3g}ms"


def rows(
    records: Iterable[DecisionRecord], *, wide: bool, namespaces: bool, shadow: bool
) -> list[Sequence[str]]:
    """Return the cells of records."""
    one = _shadow_row if shadow else _row
    return [(*one(record, namespaces), *(_wide(record) if wide else ())) for record in records]


def _name(record: DecisionRecord, namespaces: bool) -> str:
    return f"{record.namespace}/{record.name}" if namespaces else record.name


def _total(record: DecisionRecord) -> str:
    return str(record.total) if record.HasField("total") else "-"


def _fit(record: DecisionRecord) -> str:
    return f"{record.feasible_nodes}/{record.evaluated_nodes}"


def _row(record: DecisionRecord, namespaces: bool) -> tuple[str, ...]:
    return (
        clock(record.decided_time),
        _name(record, namespaces),
        str(record.attempt),
        record.node_name or NONE,
        _total(record),
        _fit(record),
        record.outcome or "(open)",
    )


def _shadow_row(record: DecisionRecord, namespaces: bool) -> tuple[str, ...]:
    return (
        clock(record.decided_time),
        _name(record, namespaces),
        record.bound_node,
        record.node_name or NONE,
        _total(record),
        _fit(record),
        record.profile,
    )


def _wide(record: DecisionRecord) -> tuple[str, ...]:
    return (
        duration(record.seconds),
        record.replica,
        str(record.term),
        str(record.revision),
        str(record.together),
        record.pod_class[:8],
        record.message,
    )


def at_length(record: DecisionRecord, *, namespaces: bool) -> list[str]:
    """Return the lines that tell all of a decision."""
    what = record.outcome or "Open"
    if record.bound_node:
        what = f"shadow; bound to {record.bound_node}"
    day = datetime.fromtimestamp(seconds(record.decided_time)).date()
    lines = [
        f"{_name(record, namespaces)}: {what}, attempt {record.attempt}",
        f"  decided   {day} {clock(record.decided_time)} in {duration(record.seconds)}, "
        f"waited {duration(_between(record.queued_time, record.popped_time))}{_ending(record)}",
        f"  by        {record.replica}, term {record.term}, revision {record.revision}, "
        f"number {record.number}",
        f"  profile   {record.profile}, class {record.pod_class or NONE}"
        + (f", with {record.together - 1} others alike" if record.together > 1 else ""),
        f"  fits      {record.feasible_nodes} of {record.evaluated_nodes} nodes",
    ]
    if record.message:
        lines.append(f"  message   {record.message}")
    if record.nominated_node:
        victims = f", {record.victims} victims" if record.victims else ""
        lines.append(f"  nominated {record.nominated_node}{victims}")
    lines += _scores(record)
    if record.plugin_seconds:
        slowest = sorted(record.plugin_seconds.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{name} {duration(of)}" for name, of in slowest[:4])
        lines.append(f"  time      {shares}")
    return lines


def _between(one: Timestamp, other: Timestamp) -> float:
    return max(0.0, seconds(other) - seconds(one))


def _ending(record: DecisionRecord) -> str:
    if not record.HasField("ended_time"):
        return ""
    return f", ended after {duration(_between(record.decided_time, record.ended_time))}"


def _scores(record: DecisionRecord) -> list[str]:
    if not record.scores:
        known = f", score {record.total}" if record.HasField("total") else ""
        return [f"  node      {record.node_name}{known}"] if record.node_name else []
    tied = f" ({record.tied_nodes} nodes share the best)" if record.tied_nodes > 1 else ""
    lines = [f"  node      {record.node_name}, score {record.total}{tied}"]
    nodes = record.scores
    plugins = sorted({name for node in nodes for name, score in node.plugins.items() if score})
    cells = [["SCORES", *(node.node_name for node in nodes)]]
    cells += [[name, *(str(node.plugins.get(name, 0)) for node in nodes)] for name in plugins]
    cells.append(["total", *(str(node.total) for node in nodes)])
    return [*lines, *(f"    {line}" for line in aligned(cells))]
