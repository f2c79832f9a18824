"""Histories in words, and the report of a run: one HTML page that needs no network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from podsched.api.conditions import is_finished, is_pod_ready, is_terminating
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.lab.chaos.history import PODS, History, Violation, disrupted
from podsched.lab.chaos.outcome import ChaosOutcome
from podsched.lab.chaos.records import Call, Change, FaultMark, FencedWrite
from podsched.lab.chaos.timeline import timeline

#: Seconds before and after a violation, and lines, that are shown with it.
AROUND, LINES = 10.0, 40


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
        for line in _lines(history, keys)
        if line[1] or abs(line[0].at - violation.at) <= AROUND
    ]
    lines.sort(key=lambda line: abs(line[0].at - violation.at))
    return sorted((line for line, _ in lines[:LINES]), key=lambda line: line.at)


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
    for violation in outcome.violations:
        yield _violation(outcome, violation)


def _violation(outcome: ChaosOutcome, violation: Violation) -> str:
    lines = "\n".join(f"{line.at:9.3f}  {line.text}" for line in around(outcome.history, violation))
    return (
        f'<h3 class="bad">{escape(violation.promise)}</h3>'
        f"<p>{escape(violation.text)} (at {violation.at:.3f} s)</p><pre>{escape(lines)}</pre>"
    )


def _faults(outcome: ChaosOutcome) -> Iterable[str]:
    yield "<table><tr><th>begins<th>ends<th>fault<th>what"
    ends = {fault.number: fault.at for fault in outcome.history.faults if fault.ends}
    for fault in outcome.history.faults:
        if not fault.ends:
            end = f"{ends[fault.number]:.1f} s" if fault.number in ends else ""
            what = f"could not be done: {fault.failed}" if fault.failed else fault.what
            cells = (f"{fault.at:.1f} s", end, fault.name, what)
            yield "<tr>" + "".join(f"<td>{escape(cell)}" for cell in cells)
    yield "</table>"


def write_report(path: Path, outcome: ChaosOutcome) -> None:
    """Write the page. Raises ``OSError``."""
    path.write_text(page(outcome))
