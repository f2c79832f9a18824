"""The report of a run: one HTML page that needs no network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from podsched.lab.chaos.outcome import ChaosOutcome
from podsched.lab.chaos.promises.violation import Violation
from podsched.lab.chaos.telling import around
from podsched.lab.chaos.timeline import timeline

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
