"""Results of Failover: how long each step of a takeover took, as text and as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from podsched.lab.bench.overload_result import percentile

#: How many pods that waited longest are named.
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Takeover:
    """One round: seconds from the fault until each step, and who took over.

    detected: a standby claims the lock. elected: a replica leads. bound: a pod is bound that was
    created after the fault. longest: the pods created around it that waited longest, with seconds.
    """

    fault: str
    detected: float
    elected: float
    bound: float
    longest: Sequence[tuple[str, float]] = ()


_STEPS: dict[str, Callable[[Takeover], float]] = {
    "detected": lambda takeover: takeover.detected,
    "elected": lambda takeover: takeover.elected,
    "bound": lambda takeover: takeover.bound,
}
_SHARES = {"p50": 50, "p90": 90, "p99": 99, "max": 100}


@dataclass(slots=True)
class FailoverResult:
    """All rounds, under which load they ran, and what was wrong with what is stored."""

    nodes: int
    bound: int
    rate: float
    api_servers: int
    rounds: list[Takeover]
    problems: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """The faults, in the order of their first round."""
        return list(dict.fromkeys(each.fault for each in self.rounds))

    def figures(self, fault: str) -> dict[str, dict[str, float]]:
        """Return the distribution of each step in seconds."""
        found: dict[str, dict[str, float]] = {}
        for step, seconds in _STEPS.items():
            values = [seconds(each) for each in self.rounds if each.fault == fault]
            found[step] = {name: round(percentile(values, p), 3) for name, p in _SHARES.items()}
        return found

    def waited_longest(self) -> list[tuple[str, float, str]]:
        """Return the pods that waited longest of all, with seconds and the fault."""
        found = [(pod, s, each.fault) for each in self.rounds for pod, s in each.longest]
        return sorted(found, key=lambda item: -item[1])[:_SHOWN]

    def as_dict(self) -> dict[str, object]:
        """Return the figures under stable names."""
        return {
            "workload": "Failover",
            "nodes": self.nodes,
            "bound": self.bound,
            "rate": self.rate,
            "api_servers": self.api_servers,
            "rounds": len(self.rounds),
            "seconds": {fault: self.figures(fault) for fault in self.faults},
            "waited_longest": [
                {"pod": pod, "seconds": round(seconds, 3), "fault": fault}
                for pod, seconds, fault in self.waited_longest()
            ],
            "problems": self.problems,
        }

    def lines(self) -> list[str]:
        """Return a short report as lines."""
        servers = "1 API server" if self.api_servers == 1 else f"{self.api_servers} API servers"
        lines = [
            f"Failover: {self.nodes:,} nodes, {self.bound:,} pods bound, {self.rate:g} pods/s, "
            f"{servers}",
            "  seconds from the fault until a standby claims the lock, until it leads,",
            "  and until a pod is bound that was created after the fault:",
            f"  {'':<20}{''.join(f'{name:>9}' for name in _SHARES)}",
        ]
        for fault in self.faults:
            count = sum(each.fault == fault for each in self.rounds)
            lines.append(f"  {fault}, {count} round{'' if count == 1 else 's'}")
            for step, figures in self.figures(fault).items():
                values = "".join(f"{figures[name]:>9.3f}" for name in _SHARES)
                lines.append(f"    {step:<18}{values}")
        waited = [f"    {s:.3f} s  {pod}, {fault}" for pod, s, fault in self.waited_longest()]
        return [*lines, "  waited longest to be bound", *waited]
