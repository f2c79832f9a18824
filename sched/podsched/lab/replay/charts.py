"""A chart of runs: utilisation, fragmentation and waiting pods over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsched.lab.bench.plot import line_chart, stacked
from podsched.lab.replay.comparison import Run
from podsched.lab.replay.history import Sample


def chart(title: str, runs: Sequence[Run]) -> str:
    """Return an SVG document with a line for each run."""
    longest = max((run.history.seconds for run in runs), default=0.0)
    unit, seconds = ("hours", 3600.0) if longest > 7200 else ("minutes", 60.0)
    if longest < 300:
        unit, seconds = "seconds", 1.0

    def panel(name: str, y_label: str, value: Callable[[Sample], float]) -> str:
        series = {run.name: [(s.at / seconds, value(s)) for s in run.samples] for run in runs}
        return line_chart(f"{title}: {name}", series, x_label=unit, y_label=y_label)

    return stacked(
        [
            panel("requested cpu", "% of allocatable", lambda s: 100 * s.utilisation["cpu"]),
            panel("requested memory", "% of allocatable", lambda s: 100 * s.utilisation["memory"]),
            panel(
                "free cpu without room for a large pod",
                "% of free cpu",
                lambda s: 100 * s.fragmentation,
            ),
            panel("pods that wait", "pods", lambda s: float(s.waiting)),
        ]
    )
