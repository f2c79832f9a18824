"""The past usage of a LocalQueue, for fair sharing by usage: old usage counts less.

With a half-life of h seconds, usage from t seconds ago counts by 0.5 ** (t / h). An admitted
workload counts at once, by the penalty of one sampling interval, until a sample includes it.

Source: Kueue 0.20, pkg/util/admissionfairsharing and pkg/cache/queue/afs. As there, these numbers
are floats: they order queues, and count no quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

_Used = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Decay:
    """The settings of fair sharing by usage, in seconds."""

    half_life: float
    interval: float = 300.0
    """The time between samples."""

    def weight(self, elapsed: float) -> float:
        """Return the weight (0 to 1) of the present usage, ``elapsed`` seconds after a sample."""
        return 1.0 - 0.5 ** (elapsed / self.half_life) if self.half_life else 0.0


@dataclass(frozen=True, slots=True)
class History:
    """The past usage of one LocalQueue."""

    sampled_at: float
    """The Unix time of the last sample."""
    consumed: _Used = field(default_factory=dict)
    """Amounts of resources, averaged over the past with these weights."""
    penalties: Mapping[str, _Used] = field(default_factory=dict)
    """By workload, amounts of resources that no sample includes yet."""

    def sample(self, running: Mapping[str, int], now: float, decay: Decay) -> History:
        """Return the history with a sample of what runs now; empty without a half-life.

        It ends all penalties: they move into ``consumed``, where they decay like all past usage.
        """
        if not decay.half_life:
            return History(now)
        present = decay.weight(max(0.0, now - self.sampled_at))
        sampled = _times(self.consumed, 1.0 - present), _times(running, present)
        consumed = _sum(*sampled, *self.penalties.values())
        return History(max(now, self.sampled_at), consumed)

    def admit(self, workload: str, requests: Mapping[str, int], decay: Decay) -> History:
        """Return the history with the penalty of a workload that has been admitted.

        Admitted again, it counts once. With few of its pods, which have failed or come late, its
        penalty does not fall.
        """
        penalty = dict(self.penalties.get(workload, {}))
        for resource, amount in _times(requests, decay.weight(decay.interval)).items():
            penalty[resource] = max(amount, penalty.get(resource, 0.0))
        return replace(self, penalties={**self.penalties, workload: penalty})

    def usage(self, resource_weights: Mapping[str, float], queue_weight: float) -> float:
        """Return the weighted past usage, with CPU in cores; infinite at a queue weight of 0."""
        if queue_weight <= 0:
            return float("inf")
        total = _sum(self.consumed, *self.penalties.values())
        return (
            sum(
                resource_weights.get(resource, 1.0) * used / (1000 if resource == "cpu" else 1)
                for resource, used in sorted(total.items())
            )
            / queue_weight
        )


def _times(used: Mapping[str, float], factor: float) -> dict[str, float]:
    return {resource: amount * factor for resource, amount in used.items()}


def _sum(*parts: _Used) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0.0) + amount
    return total
