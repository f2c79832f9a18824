"""The result of a search for flavors: the flavors that a workload gets, or why it gets none.

Source: Kueue 0.20, pkg/scheduler/flavorassigner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from podsched.queues.quota import FlavorResource


class Mode(IntEnum):
    """Whether a workload can be admitted, the worst first."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    """It fits once the victims of others are gone."""
    FIT = 3

    @property
    def text(self) -> str:
        """The name in Kueue."""
        return {0: "NoFit", 1: "Preempt", 2: "DeferredFit", 3: "Fit"}[self]


class Outcome(IntEnum):
    """Whether a flavor has quota for a request, or can get it by preemption; the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Preemption could make room, but there are no candidates for it."""
    PREEMPT = 2
    """Some victims are in the workload's own queue."""
    RECLAIM = 3
    """All victims are in other queues."""
    FIT = 4

    @property
    def mode(self) -> Mode:
        """The mode of an assignment."""
        if self in (Outcome.NO_FIT, Outcome.FIT):
            return Mode.FIT if self is Outcome.FIT else Mode.NO_FIT
        return Mode.PREEMPT


class Waiting(StrEnum):
    """Reasons of the condition QuotaReserved while it is False."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    QUOTA = "WaitingForQuota"
    TOPOLOGY = "TopologyPlacementFailed"
    PREEMPTED = "WaitingForPreemptedWorkloads"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    GATED = "AdmissionGated"


#: From the mildest to the most severe; None is no reason.
SEVERITY = (
    None,
    Waiting.TOPOLOGY,
    Waiting.QUOTA,
    Waiting.EXCEEDS_MAX_QUOTA,
    Waiting.NO_MATCHING_FLAVOR,
)


@dataclass(frozen=True, slots=True)
class Assigned:
    """The flavor of one resource of a pod set."""

    flavor: str
    mode: Mode
    level: int = 0
    """The borrowing level, see ``quota.borrowing_level``."""
    next_index: int = 0
    """The index of the flavor that the next search starts with; 0 after all have been tried."""


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    """The flavors of a pod set, or why it has none."""

    name: str
    count: int
    requests: Mapping[str, int]
    """Amounts of all its pods, by resource."""
    flavors: Mapping[str, Assigned]
    """By resource; empty if the pod set gets no flavors."""
    reasons: tuple[str, ...]
    """Why flavors did not fit, sorted; empty if the pod set fits."""
    waiting: Waiting | None
    """The most severe reason why a resource group has no flavor."""

    @property
    def mode(self) -> Mode:
        """The worst mode of its resources."""
        if not self.reasons:
            return Mode.FIT
        return min((flavor.mode for flavor in self.flavors.values()), default=Mode.NO_FIT)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The flavors of a workload."""

    pod_sets: tuple[PodSetAssignment, ...]

    @property
    def mode(self) -> Mode:
        """The worst mode of its pod sets."""
        return min((pods.mode for pods in self.pod_sets), default=Mode.NO_FIT)

    @property
    def level(self) -> int:
        """The highest borrowing level."""
        return max(
            (one.level for pods in self.pod_sets for one in pods.flavors.values()), default=0
        )

    @property
    def usage(self) -> dict[FlavorResource, int]:
        """The quota that all pod sets would use."""
        usage: dict[FlavorResource, int] = {}
        for pods in self.pod_sets:
            for resource, one in pods.flavors.items():
                key = FlavorResource(one.flavor, resource)
                usage[key] = usage.get(key, 0) + pods.requests.get(resource, 0)
        return usage

    @property
    def need(self) -> dict[FlavorResource, int]:
        """The usage without amounts of 0, for which a queue above its quota counts as borrowing."""
        return {key: amount for key, amount in self.usage.items() if amount}

    @property
    def choice(self) -> frozenset[tuple[str, str, str]]:
        """The chosen flavors: pod set, resource and flavor."""
        return frozenset(
            (pods.name, resource, one.flavor)
            for pods in self.pod_sets
            for resource, one in pods.flavors.items()
        )

    @property
    def short(self) -> frozenset[FlavorResource]:
        """The flavors and resources whose quota is short, so that preemption is needed."""
        return frozenset(
            FlavorResource(one.flavor, resource)
            for pods in self.pod_sets
            for resource, one in pods.flavors.items()
            if one.mode is Mode.PREEMPT
        )

    @property
    def untried(self) -> bool:
        """Whether flavors remain that the search has not reached."""
        return any(one.next_index for pods in self.pod_sets for one in pods.flavors.values())

    @property
    def tried(self) -> dict[str, dict[str, int]]:
        """By pod set and resource, the index of the flavor that the next search starts with."""
        return {
            pods.name: {resource: one.next_index for resource, one in pods.flavors.items()}
            for pods in self.pod_sets
        }

    @property
    def message(self) -> str:
        """Why the workload waits; empty if it fits."""
        return "; ".join(
            f"couldn't assign flavors to pod set {pods.name}: {', '.join(pods.reasons)}"
            for pods in self.pod_sets
            if pods.reasons
        )

    @property
    def waiting(self) -> Waiting | None:
        """The most severe reason of the pod sets that do not fit."""
        reasons = (pods.waiting for pods in self.pod_sets if pods.mode is Mode.NO_FIT)
        return max(reasons, key=SEVERITY.index, default=None)
