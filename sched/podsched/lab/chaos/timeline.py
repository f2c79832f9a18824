"""The timeline of a run as SVG: leaders, faults, and numbers of bound and pending pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from podsched.lab.chaos.history import History, replay
from podsched.lab.chaos.outcome import ChaosOutcome

WIDTH: Final = 1200
_LEFT, _RIGHT, _ROW, _CHART, _GAP = 110, 20, 18, 90, 26
_COLOURS: Final = ("#77aadd", "#99ddaa", "#ccbb44", "#dd99cc", "#66ccee")
_FAULT, _WRONG, _CURVE = "#ffbb99", "#cc0000", "#224477"
#: Pixels of a letter, at most.
_LETTERS: Final = 7
#: Ticks of the axis of time, at most.
_TICKS: Final = 12


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
    names = sorted({_name(term.holder) for term in outcome.terms})
    colours = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(names)}
    end = outcome.history.seconds
    return [
        Bar(
            term.began_at,
            term.ended_at if term.ended else end,
            f"{_name(term.holder)}, term {term.number}",
            colours[_name(term.holder)],
            _name(term.holder),
        )
        for term in outcome.terms
    ]


def _name(identity: str) -> str:
    return identity.rpartition("_")[0] or identity


def fault_bars(history: History) -> list[Bar]:
    """Return a bar for each fault."""
    ends = {fault.number: fault.at for fault in history.faults if fault.ends}
    return [
        Bar(fault.at, ends.get(fault.number, history.seconds), fault.what, _FAULT)
        for fault in history.faults
        if not fault.ends and not fault.failed
    ]


def rows_of(bars: Iterable[Bar]) -> list[list[Bar]]:
    """Distribute bars over as few rows as possible without overlaps."""
    rows: list[list[Bar]] = []
    for bar in bars:
        row = next((row for row in rows if row[-1].ends < bar.begins), None)
        if row is None:
            row = []
            rows.append(row)
        row.append(bar)
    return rows


def per_second(times: Iterable[float], seconds: float) -> list[tuple[float, float]]:
    """Return the number of times in each second."""
    counts = [0] * (int(seconds) + 1)
    for at in times:
        counts[min(max(int(at), 0), len(counts) - 1)] += 1
    return [(float(second), float(count)) for second, count in enumerate(counts)]


def waiting(history: History) -> list[tuple[float, float]]:
    """Return the number of pods without a node, at the end of each second with a change."""
    points: dict[int, tuple[float, float]] = {}
    for moment in replay(history):
        count = sum(not pod.spec.node_name for pod in moment.world.pods.values())
        points[int(moment.revision.at)] = (moment.revision.at, float(count))
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
