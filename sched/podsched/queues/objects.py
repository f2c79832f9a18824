"""What the queues decide upon: flavors, ClusterQueues and workloads, as plain values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from podsched.api.objects import Taint, Toleration
from podsched.api.selectors import Requirement
from podsched.queues.quota import Amounts, FlavorResource, Quota

PODS = "pods"


class Strategy(StrEnum):
    """``queueingStrategy`` of a ClusterQueue."""

    STRICT = "StrictFIFO"
    BEST_EFFORT = "BestEffortFIFO"


class Backfill(StrEnum):
    """Which units of a ClusterQueue get a reservation in time; see ``backfill.plan``."""

    CONSERVATIVE = "Conservative"
    EASY = "EASY"


class Policy(StrEnum):
    """Which workloads may be preempted, by their priority."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


class Search(StrEnum):
    """Whether the search for a flavor may end with one that needs borrowing or preemption."""

    MAY_STOP = "MayStopSearch"
    TRY_NEXT = "TryNextFlavor"


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor: a kind of nodes."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    """The name of a Topology, "" for none."""
    levels: tuple[str, ...] = ()
    """The labels of its levels, the widest first; none if it does not exist."""


@dataclass(frozen=True, slots=True)
class Fungibility:
    """``flavorFungibility``: which flavor is preferred."""

    when_can_borrow: Search = Search.MAY_STOP
    when_can_preempt: Search = Search.TRY_NEXT
    preemption_over_borrowing: bool = False


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom the workloads of a ClusterQueue may preempt."""

    within: Policy = Policy.NEVER
    reclaim: Policy = Policy.NEVER
    while_borrowing: bool = False
    """``borrowWithinCohort``: other queues' lower priorities make room even for borrowing."""
    threshold: int | None = None
    """The highest priority that is preempted while borrowing."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that get their flavor together, and the flavors in the order of preference."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue as far as it decides."""

    name: str
    cohort: str | None = None
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    strategy: Strategy = Strategy.BEST_EFFORT
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    weight: Fraction = Fraction(1)
    backfill: Backfill | None = None
    """None: no unit of it gets a reservation in time."""

    def group(self, resource: str) -> ResourceGroup | None:
        """Return the group that covers a resource."""
        return next((group for group in self.groups if resource in group.resources), None)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one shape."""

    name: str
    count: int
    requests: Mapping[str, int] = field(default_factory=dict)
    """Amounts of one pod."""
    min_count: int | None = None
    group: str | None = None
    """Pod sets of one group get the same flavors."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """The terms of the required node affinity, of which one must match."""
    tolerations: tuple[Toleration, ...] = ()
    level: str = ""
    """The level of a Topology that it asks for."""

    def total(self, count: int) -> dict[str, int]:
        """Return the amounts of so many pods."""
        return {resource: number * count for resource, number in self.requests.items()}


@dataclass(frozen=True)
class Workload:
    """A group of pods that is admitted as one."""

    key: str
    pod_sets: tuple[PodSet, ...] = ()
    queue: str = ""
    """The ClusterQueue that it waits in, or is admitted to."""
    uid: str = ""
    job_uid: str = ""
    priority: int = 0
    """The effective one, with any boost."""
    queued_at: float = float("-inf")
    """The time that orders the queue, in seconds: see ``order.queue_time``."""
    local_queue: str = ""
    """The LocalQueue, "namespace/name"."""
    local_queue_usage: float | None = None
    """The past usage of the LocalQueue, if it decides."""
    reserved_at: float | None = None
    evicted: bool = False
    """Its eviction has begun."""
    gated: bool = False
    """It may not preempt yet."""
    seconds: float = float("inf")
    """From its start until all that it takes is free again, at the latest."""
    usage: Amounts = field(default_factory=dict)
    """What is reserved; a flavor and resource that it has without any amount counts 0."""
    shape: Hashable = None
    """Equal for workloads that are admitted or refused alike; None if that is not known."""
    tried: tuple[Mapping[str, int], ...] = ()
    """For each pod set and resource the index of the flavor that the search tries first."""
    refused: frozenset[str] = frozenset()
    """Flavors that are left out, as it does not fit on their nodes."""

    @cached_property
    def can_shrink(self) -> bool:
        """Whether fewer pods than wanted are enough."""
        return any(
            pods.min_count is not None and pods.min_count < pods.count for pods in self.pod_sets
        )
