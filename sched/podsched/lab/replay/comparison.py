"""Compare two runs of one workload: their summaries, and pods with different results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, NamedTuple

from podsched.lab.bench.plot import line_chart, stacked
from podsched.lab.replay.history import MEASURED, History, PodHistory, Sample, quantiles, samples

#: The quantiles of the waiting times that are reported.
QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)
#: Seconds by which a wait has to differ to count: less is the order of events within a second.
LONGER_BY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run: waits in seconds, shares from 0 to 1, means over the run's time."""

    pods: int
    bound: int
    never_bound: int
    waits: tuple[float, ...]
    unschedulable: int
    preempted: int
    utilisation: dict[str, float]
    fragmentation: float

    def to_json(self) -> dict[str, Any]:
        names = ("p50", "p90", "p99", "max")
        return {
            "pods": self.pods,
            "bound": self.bound,
            "neverBound": self.never_bound,
            "waitSeconds": {n: round(w, 3) for n, w in zip(names, self.waits, strict=True)},
            "unschedulable": self.unschedulable,
            "preempted": self.preempted,
            "utilisation": {name: round(of, 4) for name, of in self.utilisation.items()},
            "fragmentation": round(self.fragmentation, 4),
        }


@dataclass(frozen=True, slots=True)
class Run:
    """A run with its name, its summary, and its samples over time."""

    name: str
    history: History
    samples: Sequence[Sample]
    summary: Summary

    def to_json(self) -> dict[str, Any]:
        over_time = [
            {
                "seconds": round(sample.at, 3),
                "utilisation": {name: round(of, 4) for name, of in sample.utilisation.items()},
                "fragmentation": round(sample.fragmentation, 4),
                "waiting": sample.waiting,
            }
            for sample in self.samples
        ]
        return {"name": self.name, "summary": self.summary.to_json(), "overTime": over_time}


def run_of(name: str, history: History, large: tuple[int, int]) -> Run:
    """Return a run, measured with ``large`` as the size of a large pod."""
    measured = samples(history, large)
    decided = history.decided()
    waits = [pod.waited for pod in decided if pod.waited is not None]
    summary = Summary(
        pods=len(decided),
        bound=len(waits),
        never_bound=len(decided) - len(waits),
        waits=tuple(quantiles(waits, QUANTILES)),
        unschedulable=sum(pod.unschedulable for pod in decided),
        preempted=sum(pod.preempted for pod in history.pods.values()),
        utilisation={
            name: fmean(sample.utilisation[name] for sample in measured) for name in MEASURED
        },
        fragmentation=fmean(sample.fragmentation for sample in measured),
    )
    return Run(name, history, measured, summary)


class PodComparison(NamedTuple):
    """A pod in both runs."""

    before: PodHistory
    after: PodHistory

    @property
    def longer(self) -> float:
        """Seconds that it waits longer; 0 if it was not bound in both runs."""
        return (self.after.waited or 0.0) - (self.before.waited or 0.0)

    def to_json(self) -> dict[str, Any]:
        return {"pod": self.before.key, "before": _told(self.before), "after": _told(self.after)}


def _told(pod: PodHistory) -> dict[str, Any]:
    waited = pod.waited
    return {
        "node": pod.node,
        "waitSeconds": None if waited is None else round(waited, 3),
        "preempted": pod.preempted,
        "unschedulable": pod.unschedulable,
    }


@dataclass(slots=True)
class Comparison:
    """The pods with different results in the second run, by kind of difference."""

    pods: int = 0
    elsewhere: list[PodComparison] = field(default_factory=list)
    longer: list[PodComparison] = field(default_factory=list)
    shorter: list[PodComparison] = field(default_factory=list)
    only_before: list[PodComparison] = field(default_factory=list)
    only_after: list[PodComparison] = field(default_factory=list)
    spared: list[PodComparison] = field(default_factory=list)
    preempted: list[PodComparison] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, with every pod."""
        parts = {
            "placedElsewhere": self.elsewhere,
            "waitLonger": self.longer,
            "waitShorter": self.shorter,
            "boundBeforeOnly": self.only_before,
            "boundAfterOnly": self.only_after,
            "preemptedBeforeOnly": self.spared,
            "preemptedAfterOnly": self.preempted,
        }
        found = {name: [pod.to_json() for pod in pods] for name, pods in parts.items()}
        return {"pods": self.pods, **found}


def compare(before: History, after: History) -> Comparison:
    """Return the differences of pods that are in both runs, the largest first."""
    found = Comparison()
    for uid, pod in before.pods.items():
        other = after.pods.get(uid)
        if other is None:
            continue
        both = PodComparison(pod, other)
        if pod.preempted != other.preempted:
            (found.spared if pod.preempted else found.preempted).append(both)
        if not pod.decided:
            continue
        found.pods += 1
        if pod.bound is None or other.bound is None:
            if pod.bound is not None:
                found.only_before.append(both)
            elif other.bound is not None:
                found.only_after.append(both)
            continue
        if pod.node != other.node:
            found.elsewhere.append(both)
        if abs(both.longer) >= LONGER_BY:
            (found.longer if both.longer > 0 else found.shorter).append(both)
    found.longer.sort(key=lambda pod: -pod.longer)
    found.shorter.sort(key=lambda pod: pod.longer)
    return found


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
