"""Tables of ``sched decisions``, and the details of one pod's decisions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from podsched.api.columns import NONE, Column
from podsched.api.objects import Timestamp, seconds_of
from podsched.cli.printers import Table, aligned, terminal_width, wrapped
from podsched.lib.counted import counted
from podsched.v1.decisions_pb2 import DecisionRecord

#: Width of a label with its indentation.
_LABEL = 11


def clock(stamp: Timestamp) -> str:
    """Return the local time of day, to the millisecond."""
    return datetime.fromtimestamp(seconds_of(stamp)).strftime("%H:%M:%S.%f")[:-3]


def duration(length: float) -> str:
    """Return a duration in seconds as text with three digits: 0.12ms, 3.4ms, 1.2s."""
    return f"{length:.3g}s" if length >= 1 else f"{length * 1e3:.3g}ms"


_SCORE = Column("SCORE", lambda r, _: r.total if r.HasField("total") else "-")
_FIT = Column("FIT", lambda r, _: f"{r.feasible_nodes}/{r.evaluated_nodes}")
_PLAIN = (
    Column("TRY", lambda r, _: r.attempt),
    Column("NODE", lambda r, _: r.node_name or NONE),
    _SCORE,
    _FIT,
    Column("OUTCOME", lambda r, _: r.outcome or "(open)"),
)
_SHADOW = (
    Column("BOUND TO", lambda r, _: r.bound_node),
    Column("SHADOW", lambda r, _: r.node_name or NONE),
    _SCORE,
    _FIT,
    Column("PROFILE", lambda r, _: r.profile),
)
_WIDE = (
    Column("TOOK", lambda r, _: duration(r.seconds)),
    Column("REPLICA", lambda r, _: r.replica),
    Column("TERM", lambda r, _: r.term),
    Column("REVISION", lambda r, _: r.revision),
    Column("ALIKE", lambda r, _: r.together),
    Column("CLASS", lambda r, _: r.pod_class[:8]),
    Column("MESSAGE", lambda r, _: r.message),
)
#: Min widths of the columns, so that later lines are aligned with the first ones.
_WIDTHS = (12, 12, 3, 9, 3, 5)


def table_of_decisions(*, wide: bool, namespaces: bool, shadow: bool) -> Table:
    """Return an empty table of ``DecisionRecord``."""
    columns = [
        Column("TIME", lambda r, _: clock(r.decided_time)),
        Column("POD", lambda r, _: f"{r.namespace}/{r.name}" if namespaces else r.name),
        *(_SHADOW if shadow else _PLAIN),
        *(_WIDE if wide else ()),
    ]
    return Table(columns, least=_WIDTHS)


def at_length(record: DecisionRecord) -> list[str]:
    """Return the lines with all details of a decision."""
    what = record.outcome or "Open"
    if record.bound_node:
        what = f"shadow; bound to {record.bound_node}"
    day = datetime.fromtimestamp(seconds_of(record.decided_time)).date()
    waited = duration(_between(record.queued_time, record.popped_time))
    alike = f", with {counted(record.together - 1, 'other')} alike" if record.together > 1 else ""
    parts = [
        ("decided", f"{day} {clock(record.decided_time)} in {duration(record.seconds)}, "
                    f"waited {waited}{_ending(record)}"),
        ("by", f"{record.replica}, term {record.term}, revision {record.revision}, "
               f"number {record.number}"),
        ("profile", f"{record.profile}, class {record.pod_class or NONE}{alike}"),
        ("fits", f"{record.feasible_nodes} of {record.evaluated_nodes} nodes"),
        ("message", record.message),
    ]  # fmt: skip
    if record.nominated_node:
        victims = f", {counted(record.victims, 'victim')}" if record.victims else ""
        parts.append(("nominated", record.nominated_node + victims))
    parts.append(("node", _chosen(record)))
    slowest = sorted(record.plugin_seconds.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{name} {duration(length)}" for name, length in slowest[:4])
    return [
        f"{record.name}: {what}, attempt {record.attempt}",
        *_beside(parts),
        *(f"    {line}" for line in _scores(record)),
        *_beside([("time", shares)]),
    ]


def _beside(parts: Iterable[tuple[str, str]]) -> list[str]:
    """Return texts beside their labels, wrapped on a terminal; without empty texts."""
    return wrapped([[f"  {label}", text] for label, text in parts if text], (_LABEL, 0))


def _between(one: Timestamp, other: Timestamp) -> float:
    return max(0.0, seconds_of(other) - seconds_of(one))


def _ending(record: DecisionRecord) -> str:
    if not record.HasField("ended_time"):
        return ""
    return f", ended after {duration(_between(record.decided_time, record.ended_time))}"


def _chosen(record: DecisionRecord) -> str:
    """Return the chosen node and its score; "" if there is none."""
    known = f", score {record.total}" if record.HasField("total") else ""
    tied = f" ({record.tied_nodes} nodes share the best)" if record.tied_nodes > 1 else ""
    return record.node_name + known + tied if record.node_name else ""


def _scores(record: DecisionRecord) -> list[str]:
    """Return a table of scores with a row per plugin and a column per node.

    If it is wider than the terminal, it has a row per node, and letters stand for the plugins.
    """
    if not record.scores:
        return []
    nodes = record.scores
    plugins = sorted({name for node in nodes for name, score in node.plugins.items() if score})
    cells = [["SCORES", *(node.node_name for node in nodes)]]
    cells += [[name, *(str(node.plugins.get(name, 0)) for node in nodes)] for name in plugins]
    cells.append(["total", *(str(node.total) for node in nodes)])
    lines, width = aligned(cells), terminal_width()
    if width is None or max(map(len, lines)) + 4 <= width:
        return lines
    letters = [chr(ord("a") + at) for at in range(len(plugins))]
    headings = ["SCORES", *letters, "total"]
    turned = [list(column) for column in zip(*cells[1:], strict=True)][1:]
    turned = [[node.node_name, *row] for node, row in zip(nodes, turned, strict=True)]
    legend = [f"  {letter}  {name}" for letter, name in zip(letters, plugins, strict=True)]
    return [*aligned([headings, *turned]), *legend]
