"""Histories in words, and the report of a run: one HTML page that needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from podsched.api.conditions import is_finished, is_pod_ready, is_terminating
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.app.leader_requests import name_of
from podsched.lab.chaos.history import PODS, History, Violation, disrupted, replay
from podsched.lab.chaos.outcome import ChaosOutcome
from podsched.lab.chaos.records import Call, Change, FaultMark, FencedWrite

#: Seconds before and after a violation, and lines, that are shown with it.
AROUND, LINES = 10.0, 40
WIDTH: Final = 1200
_LEFT, _RIGHT, _ROW, _CHART, _GAP = 110, 20, 18, 90, 26
_FAULT, _WRONG, _CURVE = "#ffbb99", "#cc0000", "#224477"
_COLOURS: Final = ("#77aadd", "#99ddaa", "#ccbb44", "#dd99cc", "#66ccee")
#: Pixels of a letter, at most.
_LETTERS: Final = 7
#: Ticks of the axis of time, at most.
_TICKS: Final = 12


class Line(NamedTuple):
    """What happened at a time, in words."""

    at: float
    text: str


def around(history: History, violation: Violation) -> list[Line]:
    """Return the history of a violation's objects, and the faults and terms at its time.

    Other records are included within ``AROUND`` seconds. At most ``LINES`` lines, those closest to
    the violation.
    """
    keys = frozenset(violation.keys)
    lines = [
        line
        for line, is_own in _lines(history, keys)
        if is_own or abs(line.at - violation.at) <= AROUND
    ]
    lines.sort(key=lambda line: abs(line.at - violation.at))
    return sorted(lines[:LINES], key=lambda line: line.at)


def _lines(history: History, keys: frozenset[str]) -> Iterator[tuple[Line, bool]]:
    """Yield lines, and whether each is about one of the keys."""
    for fault in history.faults:
        yield Line(fault.at, fault_text(fault)), False
    term = f"terms/{history.begin.lock}"
    for revision in history.revisions:
        for change in revision.changes:
            if change.key in keys or change.key == term:
                text = f"revision {revision.number}: {_change_text(change)}"
                yield Line(revision.at, text), change.key in keys
    for call in history.calls:
        if call.key in keys:
            yield Line(call.answered, call_text(call)), True
    for write in history.writes:
        if any(PODS + pod in keys for pod in write.pods):
            yield Line(write.at, _write_text(write)), True


def fault_text(fault: FaultMark) -> str:
    """Return a fault's beginning or end in words."""
    if fault.failed:
        done = "undone" if fault.ends else "done"
        return f"fault {fault.number} {fault.name} could not be {done}: {fault.failed}"
    return f"fault {fault.number} {'over' if fault.ends else 'begins'}: {fault.what or fault.name}"


def call_text(call: Call) -> str:
    """Return a client's call in words."""
    took = f"{call.answered - call.invoked:.3f} s"
    error = f": {call.error}" if call.error else ""
    return f"{call.client} {call.verb} {call.key} -> {call.outcome.value} after {took}{error}"


def _write_text(write: FencedWrite) -> str:
    numbers = ", ".join(map(str, write.revisions))
    how = "the caller did not wait" if write.unheard else f"revisions {numbers or 'none'}"
    pods = ", ".join(write.pods) + (f" and {write.more} more" if write.more else "")
    return f"{write.server} {write.method} of term {write.term} for {pods}: {how}"


def _change_text(change: Change) -> str:
    if change.deleted:
        return f"{change.key} deleted"
    if change.holder:
        return f"{change.key} held by {change.holder}"
    return f"{change.key} {_object_text(change.object)}".rstrip()


def _object_text(item: AnyObject | None) -> str:
    """Return an object in words: a pod's node and state, the amounts of others."""
    if isinstance(item, Pod):
        states = {
            f"node={item.spec.node_name}": item.spec.node_name,
            f"nominated={item.status.nominated_node_name}": item.status.nominated_node_name,
            f"priority={item.spec.priority}": item.spec.priority,
            "ready": is_pod_ready(item),
            "finished": is_finished(item),
            "deleting": is_terminating(item),
            f"disrupted={disrupted(item)}": disrupted(item),
        }
        return " ".join(text for text, holds in states.items() if holds)
    if item is None:
        return ""
    manifest = to_manifest(item)
    return " ".join(json.dumps(manifest[part]) for part in ("spec", "status") if part in manifest)


_STYLE = """
body { font-family: sans-serif; margin: 2em; color: #222; max-width: 1250px }
table { border-collapse: collapse } td, th { padding: 0.15em 0.8em; text-align: left }
pre { background: #f4f4f4; padding: 0.8em; overflow-x: auto }
.good { color: #228833 } .bad { color: #cc0000 }
"""


def page(outcome: ChaosOutcome) -> str:
    """Return the page."""
    begin = outcome.history.begin
    verdict = (
        f'<p class="bad">{outcome.count_of_violations} of promises.</p>'
        if outcome.violations
        else '<p class="good">All promises were kept.</p>'
    )
    title = f"sched chaos, seed {begin.seed}"
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>',
            f"<style>{_STYLE}</style><h1>{title}</h1>",
            f"<p>{escape(begin.started)}</p>{verdict}",
            f"<pre>{escape(chr(10).join(outcome.lines()))}</pre>",
            "<h2>Timeline</h2><p>Point at a bar to read what it is.</p>",
            timeline(outcome),
            *_violations(outcome),
            "<h2>Faults</h2>",
            *_faults(outcome),
            "</html>",
        ]
    )


def _violations(outcome: ChaosOutcome) -> Iterable[str]:
    if outcome.violations:
        yield "<h2>Violations</h2>"
    for found in outcome.violations:
        lines = "\n".join(f"{line.at:9.3f}  {line.text}" for line in around(outcome.history, found))
        yield (
            f'<h3 class="bad">{escape(found.promise)}</h3>'
            f"<p>{escape(found.text)} (at {found.at:.3f} s)</p><pre>{escape(lines)}</pre>"
        )


def _faults(outcome: ChaosOutcome) -> Iterable[str]:
    yield "<table><tr><th>begins<th>ends<th>fault<th>what"
    ends = _ends(outcome.history)
    for fault in outcome.history.faults:
        if not fault.ends:
            end = f"{ends[fault.number]:.1f} s" if fault.number in ends else ""
            what = f"could not be done: {fault.failed}" if fault.failed else fault.what
            cells = (f"{fault.at:.1f} s", end, fault.name, what)
            yield "<tr>" + "".join(f"<td>{escape(cell)}" for cell in cells)
    yield "</table>"


class Bar(NamedTuple):
    """A period in seconds with a text; ``short``: the text if there is little room."""

    begins: float
    ends: float
    text: str
    colour: str
    short: str = ""


class _Scale:
    """From seconds to pixels."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1.0)
        self._factor = (WIDTH - _LEFT - _RIGHT) / self.seconds

    def x(self, at: float) -> float:
        return round(_LEFT + min(max(at, 0.0), self.seconds) * self._factor, 1)


def leader_bars(outcome: ChaosOutcome) -> list[Bar]:
    """Return a bar for each holder of the lock."""
    names = sorted({name_of(term.holder) for term in outcome.terms})
    colours = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(names)}
    end = outcome.history.seconds
    return [
        Bar(
            term.began_at,
            term.ended_at if term.ended else end,
            f"{name_of(term.holder)}, term {term.number}",
            colours[name_of(term.holder)],
            name_of(term.holder),
        )
        for term in outcome.terms
    ]


def fault_bars(history: History) -> list[Bar]:
    """Return a bar for each fault."""
    ends = _ends(history)
    return [
        Bar(fault.at, ends.get(fault.number, history.seconds), fault.what, _FAULT)
        for fault in history.faults
        if not fault.ends and not fault.failed
    ]


def _ends(history: History) -> dict[int, float]:
    """Return the times at which faults ended, by their numbers."""
    return {fault.number: fault.at for fault in history.faults if fault.ends}


def rows_of(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Distribute bars over as few rows as possible without overlaps."""
    rows: list[list[Bar]] = []
    for bar in bars:
        free = (row for row in rows if row[-1].ends < bar.begins)
        if (row := next(free, None)) is not None:
            row.append(bar)
        else:
            rows.append([bar])
    return rows


def per_second(times: Iterable[float], seconds: float) -> list[tuple[float, float]]:
    """Return the number of times in each second."""
    counts = [0] * (int(seconds) + 1)
    for at in times:
        counts[min(max(int(at), 0), len(counts) - 1)] += 1
    return list(enumerate(counts))


def waiting(history: History) -> list[tuple[float, float]]:
    """Return the number of pods without a node, at the end of each second with a change."""
    points: dict[int, tuple[float, float]] = {}
    for moment in replay(history):
        count = sum(not pod.spec.node_name for pod in moment.world.pods.values())
        points[int(moment.revision.at)] = (moment.revision.at, count)
    return list(points.values())


def timeline(outcome: ChaosOutcome) -> str:
    """Return the timeline as an SVG element."""
    history = outcome.history
    scale = _Scale(history.seconds)
    rows = rows_of(fault_bars(history))
    parts: list[str] = []
    y = 10
    parts += _lane("leader", [leader_bars(outcome)], y, scale)
    y += _ROW + _GAP // 2
    parts += _lane("faults", rows, y, scale)
    y += max(len(rows), 1) * _ROW + _GAP // 2
    parts += _chart("bound / s", per_second(outcome.bound_at, scale.seconds), y, scale)
    y += _CHART + _GAP
    parts += _chart("waiting", waiting(history), y, scale)
    y += _CHART
    parts += _ticks(y, scale)
    for violation in outcome.violations:
        x, title = scale.x(violation.at), escape(f"{violation.promise}: {violation.text}")
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="5" y2="{y}" stroke="{_WRONG}" stroke-width="2">'
            f"<title>{title}</title></line>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 25}" '
        f'font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _lane(name: str, rows: Sequence[Sequence[Bar]], y: int, scale: _Scale) -> Iterator[str]:
    yield f'<text x="5" y="{y + 13}">{name}</text>'
    for at, row in enumerate(rows):
        for bar in row:
            x = scale.x(bar.begins)
            width = max(scale.x(bar.ends) - x, 2.0)
            seconds = f"{bar.begins:.1f} s to {bar.ends:.1f} s"
            yield (
                f'<rect x="{x}" y="{y + at * _ROW}" width="{width:.1f}" height="{_ROW - 3}" '
                f'fill="{bar.colour}"><title>{escape(bar.text)}: {seconds}</title></rect>'
            )
            fitting = [text for text in (bar.text, bar.short) if width > _LETTERS * len(text)]
            if fitting:
                yield f'<text x="{x + 3}" y="{y + at * _ROW + 12}">{escape(fitting[0])}</text>'


def _chart(
    name: str, points: Sequence[tuple[float, float]], y: int, scale: _Scale
) -> Iterator[str]:
    most = max((value for _, value in points), default=0.0) or 1.0
    bottom = y + _CHART
    path = " ".join(f"{scale.x(at)},{bottom - value / most * _CHART:.1f}" for at, value in points)
    yield f'<text x="5" y="{y + 13}">{name}</text>'
    yield f'<text x="{_LEFT - 6}" y="{y + 9}" text-anchor="end">{most:g}</text>'
    yield f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}" stroke="#ccc"/>'
    yield f'<polyline points="{path}" fill="none" stroke="{_CURVE}" stroke-width="1.5"/>'


def _ticks(y: int, scale: _Scale) -> Iterator[str]:
    step = next(s for s in (1, 5, 10, 30, 60, 300, 600, 3600, 86400) if scale.seconds / s <= _TICKS)
    for at in range(0, int(scale.seconds) + 1, step):
        yield f'<text x="{scale.x(at)}" y="{y + 16}" text-anchor="middle">{at} s</text>'
