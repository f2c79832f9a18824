"""The order, the figures and the report of a comparison of two schedulers; see ``compare``.

Pure: ``compare`` measures.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from podsched.lib.counted import counted

KUBE_SCHEDULER, PODSCHED = "kube-scheduler", "podsched"
#: What the ratio divides: the second's throughput by the first's.
SCHEDULERS = KUBE_SCHEDULER, PODSCHED
#: Processes whose CPU usage is a column: the scheduler of the turn, and two that are in every turn.
_COLUMNS = ("scheduler", "kube-apiserver", "etcd")
_HEADS = ("workload", "scheduler", "pods/s", "least to most", "ratio", "least to most")


def order(rounds: int) -> list[tuple[str, ...]]:
    """Return the schedulers of each round in turns, A B, B A, A B, ...

    So a machine that becomes slower or faster favours neither.
    """
    return [SCHEDULERS if number % 2 == 0 else SCHEDULERS[::-1] for number in range(rounds)]


def throughput(bound_at: Iterable[float], began: float) -> float:
    """Return the pods bound per second from ``began`` until the last; 0 if none is bound.

    bound_at: when each pod was seen bound, in seconds.
    """
    times = list(bound_at)
    seconds = max(times, default=began) - began
    return len(times) / seconds if seconds > 0 else 0.0


def too_fast(bound: int, rate: float) -> list[str]:
    """Return a line if pods were bound, all of them before the clock started; nothing otherwise."""
    if bound and not rate:
        return ["the pods were bound before its lease was seen: measure more pods"]
    return []


@dataclass(frozen=True, slots=True)
class Turn:
    """One scheduler's turn with one workload.

    ``pods_per_second``: see ``throughput``. ``cpu_us_per_pod``: microseconds of CPU by process,
    until the scheduler is idle again, thus with its Events. ``load``: the machine's load average
    (one minute) at the beginning.
    """

    workload: str
    scheduler: str
    nodes: int
    pods: int
    bound: int
    pods_per_second: float
    cpu_us_per_pod: Mapping[str, float] = field(default_factory=dict)
    load: float = 0.0
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """The turns of one workload, by scheduler in the order of the rounds."""

    workload: str
    turns: Mapping[str, Sequence[Turn]]

    def rates(self, scheduler: str) -> list[float]:
        return [turn.pods_per_second for turn in self.turns[scheduler]]

    @property
    def ratio(self) -> float:
        """The ratio of the medians; 0 if kube-scheduler's is unknown."""
        first, second = (statistics.median(self.rates(name)) for name in SCHEDULERS)
        return second / first if first else 0.0

    @property
    def ratios(self) -> list[float]:
        """The ratio within each round, of turns that followed each other."""
        both = zip(*map(self.rates, SCHEDULERS), strict=True)
        return [second / first if first else 0.0 for first, second in both]

    def cpu(self, scheduler: str) -> dict[str, float]:
        """Return the median of the CPU per pod, by process."""
        turns = self.turns[scheduler]
        names = turns[0].cpu_us_per_pod
        return {
            n: statistics.median_high([t.cpu_us_per_pod.get(n, 0.0) for t in turns]) for n in names
        }

    def as_dict(self) -> dict[str, object]:
        figures: dict[str, object] = {
            name: {
                "pods_per_second": round(statistics.median(self.rates(name)), 1),
                "spread": [round(min(self.rates(name)), 1), round(max(self.rates(name)), 1)],
                "cpu_us_per_pod": self.cpu(name),
            }
            for name in SCHEDULERS
        }
        return {
            "workload": self.workload,
            **figures,
            "ratio": round(self.ratio, 2),
            "ratio_spread": [round(min(self.ratios), 2), round(max(self.ratios), 2)],
        }

    def rows(self) -> Iterator[list[str]]:
        """Yield a row of the table for each scheduler; the ratio is in the second."""
        for name in SCHEDULERS:
            rates, cpu = self.rates(name), self.cpu(name)
            last = name == SCHEDULERS[-1]
            yield [
                self.workload,
                name,
                f"{statistics.median(rates):,.0f}",
                f"{min(rates):,.0f} to {max(rates):,.0f}",
                f"{self.ratio:.1f}" if last else "",
                f"{min(self.ratios):.1f} to {max(self.ratios):.1f}" if last else "",
                *(f"{cpu[process]:,.0f}" if process in cpu else "" for process in _COLUMNS),
            ]


@dataclass(slots=True)
class ComparisonResult:
    """All turns, and ``about``: what was measured with what, by name."""

    about: Mapping[str, str]
    turns: list[Turn]

    @property
    def problems(self) -> list[str]:
        """Why the results are invalid."""
        return [
            f"{turn.workload} by {turn.scheduler}: {problem}"
            for turn in self.turns
            for problem in turn.problems
        ]

    @property
    def compared(self) -> list[Compared]:
        found = []
        for workload in dict.fromkeys(turn.workload for turn in self.turns):
            mine = [turn for turn in self.turns if turn.workload == workload]
            by_name = {name: [t for t in mine if t.scheduler == name] for name in SCHEDULERS}
            found.append(Compared(workload, by_name))
        return found

    def as_dict(self) -> dict[str, object]:
        return {
            "workload": "compare",
            "about": dict(self.about),
            "compared": [each.as_dict() for each in self.compared],
            "turns": [asdict(turn) for turn in self.turns],
            "problems": self.problems,
        }

    def lines(self) -> list[str]:
        first = self.turns[0]
        rounds = counted(len(self.turns) // len(SCHEDULERS) // len(self.compared), "round")
        loads = [turn.load for turn in self.turns]
        heads = [*_HEADS, *(f"{process} us/pod" for process in _COLUMNS)]
        return [
            f"compare: {first.nodes:,} nodes, {first.pods:,} pods, {rounds}; medians",
            *(f"  {name}: {text}" for name, text in self.about.items()),
            f"  load average: {min(loads):.1f} to {max(loads):.1f} when turns began",
            *_table([heads, *(row for each in self.compared for row in each.rows())]),
        ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(map(str.ljust, row, widths)).rstrip()  # texts and numbers alike
        for row in rows
    ]
