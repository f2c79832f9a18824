"""Line charts as SVG, for results of benchmarks.

Charts are written as text, so that no plotting library is needed. Non-goals: other kinds of charts,
interaction, styles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

#: Points (x, y) of one line.
Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 900, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 220, 48, 60
_TICKS = 6
#: Colours that people with colour blindness can tell apart (Okabe and Ito).
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7a00",
)  # fmt: skip


class _Axis(NamedTuple):
    """Positions along an axis: ``place`` returns 0 for the first tick, 1 for the last."""

    ticks: list[float]
    place: Callable[[float], float]


def line_chart(
    title: str,
    series: Mapping[str, Points],
    *,
    x_label: str,
    y_label: str,
    log: bool = False,
) -> str:
    """Return an SVG document with one line per series, axes from 0 and a legend.

    Logarithmic axes begin at the power of ten below the smallest value; points of 0 or less are
    left out. So are points that are not finite.
    """
    shown = {
        name: [
            (x, y)
            for x, y in points
            if math.isfinite(x) and math.isfinite(y) and not (log and min(x, y) <= 0)
        ]
        for name, points in series.items()
    }
    axis = _log_axis if log else _linear_axis
    across = axis([x for points in shown.values() for x, _ in points])
    up = axis([y for points in shown.values() for _, y in points])
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(WIDTH / 2, 24, title, "middle", 'font-size="16"'),
            *_grid(across, up, x_label, y_label),
            *_lines(shown, across, up),
            "</svg>\n",
        )
    )


def stacked(charts: Sequence[str]) -> str:
    """Return an SVG document with charts one below the other."""
    height = HEIGHT * len(charts)
    parts = [f'<g transform="translate(0 {HEIGHT * n})">{c}</g>' for n, c in enumerate(charts)]
    head = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return "\n".join((f'<svg xmlns="http://www.w3.org/2000/svg" {head}>', *parts, "</svg>\n"))


def _linear_axis(values: Sequence[float]) -> _Axis:
    high = max([0.0, *values]) or 1.0
    step = _step(high / _TICKS)
    last = math.ceil(high / step)
    return _Axis([n * step for n in range(last + 1)], lambda value: value / (last * step))


def _log_axis(values: Sequence[float]) -> _Axis:
    first = math.floor(math.log10(min(values, default=1.0)))
    last = max(math.ceil(math.log10(max(values, default=10.0))), first + 1)
    return _Axis(
        [10.0**power for power in range(first, last + 1)],
        lambda value: (math.log10(value) - first) / (last - first),
    )


def _step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)


def _x(place: float) -> float:
    return _LEFT + place * (WIDTH - _LEFT - _RIGHT)


def _y(place: float) -> float:
    return HEIGHT - _BOTTOM - place * (HEIGHT - _TOP - _BOTTOM)


def _grid(across: _Axis, up: _Axis, x_label: str, y_label: str) -> list[str]:
    left, right, bottom, top = _x(0), _x(1), _y(0), _y(1)
    parts = []
    for tick in across.ticks:
        x = _x(across.place(tick))
        parts.append(_line(x, bottom, x, top, "#dddddd"))
        parts.append(_text(x, bottom + 18, _number(tick), "middle"))
    for tick in up.ticks:
        y = _y(up.place(tick))
        parts.append(_line(left, y, right, y, "#dddddd"))
        parts.append(_text(left - 8, y + 4, _number(tick), "end"))
    middle = (bottom + top) / 2
    return [
        *parts,
        _line(left, bottom, right, bottom, "black"),
        _line(left, bottom, left, top, "black"),
        _text((left + right) / 2, HEIGHT - 16, x_label, "middle"),
        _text(18, middle, y_label, "middle", f'transform="rotate(-90 18 {middle:.1f})"'),
    ]


def _lines(series: Mapping[str, Points], across: _Axis, up: _Axis) -> list[str]:
    parts = []
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = "" if number < len(_COLOURS) else ' stroke-dasharray="6 3"'
        places = [(_x(across.place(x)), _y(up.place(y))) for x, y in points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        if len(places) == 1:  # a line of one point is not visible
            (x, y), *_ = places
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        y = _TOP + 8 + 18 * number
        x = WIDTH - _RIGHT + 16
        parts.append(_line(x, y, x + 20, y, colour, f'stroke-width="2"{dashes}'))
        parts.append(_text(x + 26, y + 4, name))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.6g}"
