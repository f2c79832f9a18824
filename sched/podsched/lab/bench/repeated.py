"""A workload run several times, each time on a fresh cluster: median and spread."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.lab.bench.results import BenchResult, median, throughput_chart

#: Figures of which the median is given, of the second ones by process.
_FIGURES = ("pods_per_second", "seconds", "create_seconds", "p50_seconds", "p99_seconds", "ratio")
_BY_PROCESS = ("cpu_us_per_pod", "longest_lag_ms", "longest_own_lag_ms", "memory_mb")


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
        values = {name: [getattr(run, name) for run in self.runs] for name in _FIGURES}
        return {
            **first,
            **{name: median(each) for name, each in values.items()},
            "bound": min(run.bound for run in self.runs),
            **{name: self._by_process(name) for name in _BY_PROCESS},
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

    def _by_process(self, name: str) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        for run in self.runs:
            for process, value in getattr(run, name).items():
                found.setdefault(process, []).append(value)
        return {process: median(values) for process, values in found.items()}
