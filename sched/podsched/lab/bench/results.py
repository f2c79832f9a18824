"""Results of benchmarks, as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median_high

from podsched.lab.bench.plot import Points, line_chart
from podsched.lib.groups import lists_by_key

#: Throughput over time: max number of parts, and min seconds of a part.
_PARTS, _SHORTEST_PART = 60, 0.1


@dataclass(slots=True)
class BenchResult:
    """Result of a workload; latencies are from a pod's creation to its binding.

    ``problems``: why the result is invalid. ``timeline``: seconds since the first creation, and
    pods bound per second then. ``memory_mb``: allocated by each process at the end.
    ``longest_lag_ms``: upper bound of the event loop's lag, by process; ``longest_own_lag_ms``: the
    same for the lag that the process itself may have caused.

    ``seconds``: from the first creation to the last binding. ``cpu_us_per_pod``: microseconds of
    CPU per measured pod, by process. ``kube_scheduler``: kube-scheduler's throughput; 0 if it was
    not measured, or not with this size. ``backend``: the API that the client and the scheduler use.
    ``gangs``: pod groups whose measured pods are all bound.
    """

    workload: str
    nodes: int
    pods: int
    bound: int
    create_mode: str
    seconds: float
    pods_per_second: float
    create_seconds: float
    p50_seconds: float
    p99_seconds: float
    cpu_us_per_pod: dict[str, float] = field(default_factory=dict)
    kube_scheduler: float = 0.0
    memory_mb: dict[str, float] = field(default_factory=dict)
    longest_lag_ms: dict[str, float] = field(default_factory=dict)
    longest_own_lag_ms: dict[str, float] = field(default_factory=dict)
    timeline: list[tuple[float, float]] = field(default_factory=list, repr=False)
    backend: str = "podsched"
    gangs: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Throughput relative to kube-scheduler's; 0 if that is unknown."""
        if not self.kube_scheduler:
            return 0.0
        return round(self.pods_per_second / self.kube_scheduler, 1)

    @property
    def gangs_per_second(self) -> float:
        return round(self.gangs / self.seconds, 1) if self.gangs else 0.0

    def as_dict(self) -> dict[str, object]:
        derived = {"ratio": self.ratio, "gangs_per_second": self.gangs_per_second}
        figures = {**asdict(self), **derived}
        del figures["timeline"]
        return figures

    def lines(self) -> list[str]:
        modes = {
            "batch": "in batches",
            "single": "one by one",
            "stream": "on one stream",
            "rest": "one by one through Kubernetes' REST API",
        }
        created = modes.get(self.create_mode, self.create_mode)
        bound = f"{self.bound:,} bound in {self.seconds:.2f} s"
        cpu = ", ".join(f"{name} {each:,.0f}" for name, each in self.cpu_us_per_pod.items())
        memory = ", ".join(f"{name} {each:,.0f}" for name, each in self.memory_mb.items())
        lags = ", ".join(
            f"{name} {each:g} ({self.longest_own_lag_ms.get(name, each):g} by itself)"
            for name, each in self.longest_lag_ms.items()
        )
        by = " through Kubernetes' REST API" if self.backend == "kubernetes" else ""
        compared = f", {self.ratio:.1f} times kube-scheduler's {self.kube_scheduler:,.1f}"
        return [
            f"{self.workload}: {self.nodes:,} nodes, {self.pods:,} pods created {created}{by}",
            f"  {self.pods_per_second:,.0f} pods/s ({bound}){compared if self.ratio else ''}",
            *self._of_gangs(),
            f"  all created after {self.create_seconds:.2f} s",
            f"  creation to binding: p50 {self.p50_seconds:.4f} s, p99 {self.p99_seconds:.4f} s",
            f"  CPU per pod in microseconds: {cpu}",
            f"  memory in MB: {memory}",
            *([f"  event loop held up, in ms at most: {lags}"] if lags else []),
        ]

    def _of_gangs(self) -> list[str]:
        if not self.gangs:
            return []
        of_scheduler = sum(v for k, v in self.cpu_us_per_pod.items() if k.startswith("scheduler"))
        each = of_scheduler * self.pods / self.gangs
        return [
            f"  {self.gangs_per_second:,.0f} gangs/s ({self.gangs:,} with all pods bound), "
            f"{each:,.0f} us of the scheduler's CPU per gang"
        ]

    def chart(self) -> str:
        return throughput_chart(self.workload, {self.workload: self.timeline})


def throughput_chart(title: str, series: Mapping[str, Points]) -> str:
    """Return throughput over time as SVG, one line per run."""
    return line_chart(
        f"{title}: throughput", series, x_label="seconds since the first creation", y_label="pods/s"
    )


def timeline(bound_after: Sequence[float]) -> list[tuple[float, float]]:
    """Return (seconds, pods bound per second) over time; the input is the seconds of each pod."""
    width = max(max(bound_after, default=0.0) / _PARTS, _SHORTEST_PART)
    counts = Counter(int(seconds / width) for seconds in bound_after)
    return [
        (round((part + 0.5) * width, 3), round(counts[part] / width, 1))
        for part in range(max(counts, default=-1) + 1)
    ]


def percentile(values: Iterable[float], percent: int) -> float:
    """Return the least value that ``percent`` of the values do not exceed; 0 for no values."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank - 1, 0)] if ordered else 0.0


#: Figures whose median is reported; the second ones are by process.
_FIGURES = (
    "pods_per_second",
    "gangs_per_second",
    "seconds",
    "create_seconds",
    "p50_seconds",
    "p99_seconds",
    "ratio",
)
_BY_PROCESS = ("cpu_us_per_pod", "longest_lag_ms", "longest_own_lag_ms", "memory_mb")


@dataclass(slots=True)
class RepeatedResult:
    """At least one run of one workload."""

    runs: list[BenchResult]

    @property
    def workload(self) -> str:
        return self.runs[0].workload

    @property
    def problems(self) -> list[str]:
        """Why the results are invalid."""
        return [
            f"run {number}: {problem}"
            for number, run in enumerate(self.runs, start=1)
            for problem in run.problems
        ]

    def as_dict(self) -> dict[str, object]:
        """Return the medians under the names of a single run; "spread" has minimum and maximum."""
        first = self.runs[0].as_dict()
        values = {name: [getattr(run, name) for run in self.runs] for name in _FIGURES}
        return {
            **first,
            **{name: median_high(each) for name, each in values.items()},
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
        found = lists_by_key(item for run in self.runs for item in getattr(run, name).items())
        return {process: median_high(values) for process, values in found.items()}
