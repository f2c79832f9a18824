"""What Overload measured, and whether that is what is promised."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: How many times worse a flood may make the ordinary client's calls and the leader's bindings.
AT_MOST = 2.0
#: A process's memory counts as flat if the last flood leaves it with no more than this factor and
#: these bytes above the first, or if it grows as much while there is no flood: etcd keeps its last
#: thousands of transactions, whoever made them (``sched bench Soak`` judges that).
FLAT_FACTOR, FLAT_BYTES = 1.1, 32 << 20
MIB = 1 << 20


#: Bytes that processes have allocated, by name.
Sizes = Mapping[str, int]


def grown(sizes: Sequence[Sizes]) -> dict[str, tuple[int, int]]:
    """Return the processes that are larger in the end than they have been, with both sizes.

    The memory of a process goes up and down. It has levelled off when its last size is not above
    what it has had before in the same time, but for a hundredth and one MiB.
    """
    found = {}
    for name, last in sizes[-1].items():
        half = [each[name] for each in sizes[: len(sizes) // 2] if name in each]
        if half and last > max(half) * 1.01 + MIB:
            found[name] = max(half), last
    return found


def most_of(sizes: Iterable[Sizes]) -> dict[str, int]:
    """Return the most that each process has had."""
    most: dict[str, int] = {}
    for each in sizes:
        for name, size in each.items():
            most[name] = max(size, most.get(name, 0))
    return most


@dataclass(slots=True)
class Phase:
    """One phase. Latencies in seconds; ``bind_seconds``: from the first binding to the last.

    ``flood``: how many calls of the flood ended how. ``resident`` and ``peak``: bytes by process.
    """

    flooded: bool
    latencies: list[float]
    errors: list[str]
    pods: int
    bound: int
    bind_seconds: float
    flood: dict[str, int] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)


def percentile(values: Iterable[float], percent: int) -> float:
    """Return the least value that ``percent`` of the values do not exceed; 0 for no values."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank - 1, 0)] if ordered else 0.0


@dataclass(slots=True)
class OverloadResult:
    """The phases, and what follows from them.

    filling: memory at the end of the flood before them.
    """

    phases: list[Phase]
    filling: list[Sizes] = field(default_factory=list)

    def _of(self, *, flooded: bool) -> Sequence[Phase]:
        return [phase for phase in self.phases if phase.flooded is flooded]

    def latency(self, percent: int, *, flooded: bool) -> float:
        """Return a percentile of the ordinary client's calls, in seconds."""
        each = (seconds for phase in self._of(flooded=flooded) for seconds in phase.latencies)
        return percentile(each, percent)

    def bind_rate(self, *, flooded: bool) -> float:
        """Return pods bound per second, of all phases together."""
        phases = self._of(flooded=flooded)
        seconds = sum(phase.bind_seconds for phase in phases)
        return sum(phase.bound for phase in phases) / seconds if seconds else 0.0

    @property
    def flood(self) -> dict[str, int]:
        """How many calls of the floods ended how."""
        total: collections.Counter[str] = collections.Counter()
        for phase in self.phases:
            total.update(phase.flood)
        return dict(sorted(total.items()))

    def memory(self) -> dict[str, tuple[int, int, int]]:
        """Return by process: bytes after the first flood and the last, and the most of all."""
        floods = self._of(flooded=True)
        return {
            name: (
                before,
                floods[-1].resident.get(name, 0),
                max(phase.peak.get(name, 0) for phase in self.phases),
            )
            for name, before in floods[0].resident.items()
        }

    def _of_floods(self, name: str) -> int:
        """Return by how much more a process has grown in phases with a flood than in the others."""
        more = 0
        for before, after in itertools.pairwise(self.phases):
            growth = after.resident.get(name, 0) - before.resident.get(name, 0)
            more += growth if after.flooded else -growth
        return more

    @property
    def problems(self) -> list[str]:
        """Which promises do not hold; empty if all do."""
        found = []
        quiet, flooded = (self.latency(99, flooded=when) for when in (False, True))
        if flooded > AT_MOST * quiet:
            found.append(f"the ordinary client's p99 is {flooded / quiet:.1f} times that of quiet")
        quiet, flooded = (self.bind_rate(flooded=when) for when in (False, True))
        if flooded * AT_MOST < quiet:
            found.append(f"the leader binds {_ratio(quiet, flooded)} times slower")
        if errors := [error for phase in self.phases for error in phase.errors]:
            found.append(f"{len(errors)} of the ordinary client's calls failed: {errors[0]}")
        if lost := sum(phase.pods - phase.bound for phase in self.phases):
            found.append(f"{lost} pods were not bound")
        for name, (first, last) in grown(self.filling).items() if self.filling else ():
            sizes = f"{first // MIB} to {last // MIB} MiB"
            found.append(f"{name} was still growing when the phases began: {sizes}")
        for name, (first, last, _) in self.memory().items():
            if last > first * FLAT_FACTOR + FLAT_BYTES and self._of_floods(name) > FLAT_BYTES:
                found.append(f"{name} grew from {first // MIB} to {last // MIB} MiB")
        return found

    def as_dict(self) -> dict[str, object]:
        sides = {
            name: {
                "p50_seconds": round(self.latency(50, flooded=when), 5),
                "p99_seconds": round(self.latency(99, flooded=when), 5),
                "calls": sum(len(phase.latencies) for phase in self._of(flooded=when)),
                "bound_per_second": round(self.bind_rate(flooded=when), 1),
            }
            for name, when in (("quiet", False), ("flooded", True))
        }
        memory = {
            name: dict(zip(("first_mib", "last_mib", "peak_mib"), map(_mib, sizes), strict=True))
            for name, sizes in self.memory().items()
        }
        return {
            "workload": "Overload",
            **sides,
            "memory": memory,
            "flood": self.flood,
            "problems": self.problems,
        }

    def lines(self) -> list[str]:
        """Return a short report as lines."""
        found = ["Overload: ten flooding clients beside an ordinary one; quiet -> flooded"]
        for percent in (50, 99):
            quiet, flooded = (1000 * self.latency(percent, flooded=w) for w in (False, True))
            times = _ratio(flooded, quiet)
            found.append(f"  ordinary call, p{percent}: {quiet:.1f} -> {flooded:.1f} ms ({times}x)")
        quiet, flooded = (self.bind_rate(flooded=when) for when in (False, True))
        found.append(
            f"  leader: {quiet:,.0f} -> {flooded:,.0f} pods bound/s ({_ratio(quiet, flooded)}x)"
        )
        found.append("  memory after the first flood -> the last (most), MiB:")
        for name, sizes in self.memory().items():
            first, last, most = map(_mib, sizes)
            found.append(f"    {name}: {first} -> {last} ({most})")
        found.append("  calls of the flood:")
        found += [f"    {name}: {count:,}" for name, count in self.flood.items()]
        return found


def _ratio(worse: float, better: float) -> str:
    return f"{worse / better:.1f}" if better else "?"


def _mib(size: int) -> int:
    return size // MIB
