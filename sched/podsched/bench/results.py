"""Results of benchmarks, as text and as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class BenchResult:
    """Result of a workload; latencies are from a pod's creation to its binding.

    ``seconds``: from the first creation to the last binding. ``cpu_us_per_pod``: microseconds of
    CPU per measured pod, by process. ``kube_scheduler``: kube-scheduler's throughput; 0 if it was
    not measured, or not with this size.
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

    @property
    def ratio(self) -> float:
        """Throughput relative to kube-scheduler's; 0 if that is unknown."""
        if not self.kube_scheduler:
            return 0.0
        return round(self.pods_per_second / self.kube_scheduler, 1)

    @property
    def problems(self) -> list[str]:
        """Why the figures do not count."""
        missing = self.bound < self.pods
        return [f"only {self.bound} of {self.pods} pods were bound"] if missing else []

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio}

    def lines(self) -> list[str]:
        """Return a short report as lines."""
        modes = {"batch": "in batches", "single": "one by one"}
        created = modes.get(self.create_mode, self.create_mode)
        bound = f"{self.bound:,} bound in {self.seconds:.2f} s"
        cpu = ", ".join(f"{name} {each:,.0f}" for name, each in self.cpu_us_per_pod.items())
        compared = f", {self.ratio:.1f} times kube-scheduler's {self.kube_scheduler:,.1f}"
        return [
            f"{self.workload}: {self.nodes:,} nodes, {self.pods:,} pods created {created}",
            f"  {self.pods_per_second:,.0f} pods/s ({bound}){compared if self.ratio else ''}",
            f"  all created after {self.create_seconds:.2f} s",
            f"  creation to binding: p50 {self.p50_seconds:.4f} s, p99 {self.p99_seconds:.4f} s",
            f"  CPU per pod in microseconds: {cpu}",
        ]


@dataclass(slots=True)
class FailoverResult:
    """Seconds from each signal to the leader until the next pod was bound, by signal."""

    gaps: dict[str, list[float]]

    @property
    def problems(self) -> list[str]:
        """Nothing can be wrong with it: a round that fails raises."""
        return []

    def as_dict(self) -> dict[str, object]:
        medians = {signal: round(median(gaps), 3) for signal, gaps in self.gaps.items()}
        rounded = {signal: [round(gap, 3) for gap in gaps] for signal, gaps in self.gaps.items()}
        return {"workload": "Failover", "gap_seconds": rounded, "median_seconds": medians}

    def lines(self) -> list[str]:
        """Return a short report as lines."""
        each = [
            f"  {signal}: median {median(gaps):.2f} s ({', '.join(f'{g:.2f}' for g in gaps)})"
            for signal, gaps in self.gaps.items()
        ]
        return ["Failover: time from the signal until the next pod is bound", *each]


@dataclass(slots=True)
class QueueResult:
    """Microseconds per operation of the scheduling queue with ``pods`` waiting."""

    pods: int
    helped: int
    microseconds: dict[str, float]

    @property
    def problems(self) -> list[str]:
        """Nothing can be wrong with it."""
        return []

    def as_dict(self) -> dict[str, object]:
        return {"workload": "Queue", **asdict(self)}

    def lines(self) -> list[str]:
        """Return a short report as lines."""
        each = [f"  {name}: {value:.1f} us" for name, value in self.microseconds.items()]
        return [f"Queue: {self.pods:,} waiting pods; CPU time per operation", *each]


def median(values: list[float]) -> float:
    """Return the median, the upper one of an even number of values; 0 for no values."""
    return sorted(values)[len(values) // 2] if values else 0.0
