"""A workload run several times, each time on a fresh cluster: median and spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podsched.lab.bench.results import BenchResult, median, throughput_chart

#: Figures of which the median is given.
_FIGURES: dict[str, Callable[[BenchResult], float]] = {
    "pods_per_second": lambda run: run.pods_per_second,
    "seconds": lambda run: run.seconds,
    "create_seconds": lambda run: run.create_seconds,
    "p50_seconds": lambda run: run.p50_seconds,
    "p99_seconds": lambda run: run.p99_seconds,
    "ratio": lambda run: run.ratio,
}


@dataclass(slots=True)
class RepeatedResult:
    """At least one run of one workload."""

    runs: list[BenchResult]

    @property
    def workload(self) -> str:
        """The workload's name."""
        return self.runs[0].workload

    @property
    def problems(self) -> list[str]:
        """Why a run's figures do not count."""
        return [
            f"run {number}: {problem}"
            for number, run in enumerate(self.runs, start=1)
            for problem in run.problems
        ]

    def as_dict(self) -> dict[str, object]:
        """Return the medians under the names that one run has; "spread" has least and most."""
        first = self.runs[0].as_dict()
        values = {name: [of(run) for run in self.runs] for name, of in _FIGURES.items()}
        return {
            **first,
            **{name: median(each) for name, each in values.items()},
            "bound": min(run.bound for run in self.runs),
            "cpu_us_per_pod": self._by_process(lambda run: run.cpu_us_per_pod),
            "longest_lag_ms": self._by_process(lambda run: run.longest_lag_ms),
            "longest_own_lag_ms": self._by_process(lambda run: run.longest_own_lag_ms),
            "memory_mb": self._by_process(lambda run: run.memory_mb),
            "problems": self.problems,
            "runs": len(self.runs),
            "spread": {name: [min(each), max(each)] for name, each in values.items()},
        }

    def lines(self) -> list[str]:
        """Return a short report as lines: the middle run, and the spread of all."""
        middle = sorted(self.runs, key=lambda run: run.pods_per_second)[len(self.runs) // 2]
        rates = sorted(run.pods_per_second for run in self.runs)
        share = (rates[-1] - rates[0]) / rates[-1] if rates[-1] else 0.0
        return [
            *middle.lines(),
            f"  the median of {len(rates)} runs: {rates[0]:,.0f} to {rates[-1]:,.0f} pods/s "
            f"(spread {share:.0%})",
        ]

    def chart(self) -> str:
        """Return the throughput of every run over time as SVG."""
        series = {f"run {number}": run.timeline for number, run in enumerate(self.runs, start=1)}
        return throughput_chart(self.workload, series)

    def _by_process(self, of: Callable[[BenchResult], dict[str, float]]) -> dict[str, float]:
        names = dict.fromkeys(name for run in self.runs for name in of(run))
        return {
            name: median([of(run)[name] for run in self.runs if name in of(run)]) for name in names
        }
