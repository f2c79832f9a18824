"""Flavors, ClusterQueues and workloads as plain values, which decisions about queues read."""

from __future__ import annotations

from collections import Counter
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
    """Which workloads of a ClusterQueue get a promised start; see ``backfill.plan``."""

    CONSERVATIVE = "Conservative"
    EASY = "EASY"


class Policy(StrEnum):
    """Which workloads may be preempted: ``withinClusterQueue`` and ``reclaimWithinCohort``."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


class FungibilityPolicy(StrEnum):
    """Whether the search may stop at a flavor that needs borrowing, or preemption."""

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
    """The node labels of the Topology's levels, the widest first; none if it does not exist."""


@dataclass(frozen=True, slots=True)
class Fungibility:
    """``flavorFungibility``: when the search goes on to the next flavor, and which is preferred."""

    when_can_borrow: FungibilityPolicy = FungibilityPolicy.MAY_STOP
    when_can_preempt: FungibilityPolicy = FungibilityPolicy.TRY_NEXT
    preemption_over_borrowing: bool = False


@dataclass(frozen=True, slots=True)
class Preemption:
    """Which workloads the workloads of a ClusterQueue may preempt."""

    within: Policy = Policy.NEVER
    """``withinClusterQueue``: those of the same queue."""
    reclaim: Policy = Policy.NEVER
    """``reclaimWithinCohort``: those of other queues that borrow."""
    while_borrowing: bool = False
    """``borrowWithinCohort``: a borrower may preempt lower priorities of other queues."""
    threshold: int | None = None
    """``maxPriorityThreshold``: the highest priority that a borrower may preempt; None: any."""

    @property
    def is_possible(self) -> bool:
        return self.within is not Policy.NEVER or self.reclaim is not Policy.NEVER


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that all get the same flavor, and the flavors in order of preference."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """The parts of a ClusterQueue that decisions depend on."""

    name: str
    cohort: str | None = None
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    strategy: Strategy = Strategy.BEST_EFFORT
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    weight: Fraction = Fraction(1)
    backfill: Backfill | None = None
    """None: no workload of the queue gets a promised start."""

    def group(self, resource: str) -> ResourceGroup | None:
        return next((group for group in self.groups if resource in group.resources), None)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods with equal requests and constraints."""

    name: str
    count: int
    requests: Mapping[str, int] = field(default_factory=dict)
    """Amounts of one pod, by resource."""
    min_count: int | None = None
    """The least number of pods that may be admitted; None: all of them."""
    group: str | None = None
    """Pod sets of one group get the same flavors."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    """The terms of the required node affinity, of which one must match."""
    tolerations: tuple[Toleration, ...] = ()
    level: str = ""
    """The node label of the Topology level that it asks for, "" for none."""
    slice_levels: tuple[str, ...] = ()
    """The node labels of the levels that its slices ask for."""
    in_topology: bool = False
    """Whether it asks for a flavor with a Topology, of whatever level."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """The flavors of pods of its group that run already, by resource: it gets no others."""

    def total(self, count: int) -> dict[str, int]:
        """Return the amounts of ``count`` pods."""
        return {resource: number * count for resource, number in self.requests.items()}


@dataclass(frozen=True)
class Workload:
    """Pods that are admitted together: they wait, or use quota, or both if some are admitted."""

    key: str
    pod_sets: tuple[PodSet, ...] = ()
    queue: str = ""
    """The ClusterQueue that it waits in, or is admitted to."""
    uid: str = ""
    job_uid: str = ""
    priority: int = 0
    """The effective priority, with any boost."""
    queued_at: float = float("-inf")
    """The Unix time that orders the queue: see ``order.queue_time``."""
    local_queue: str = ""
    """The LocalQueue, "namespace/name"."""
    local_queue_usage: float | None = None
    """The past usage of the LocalQueue, if it orders the ClusterQueue."""
    reserved_at: float | None = None
    """The Unix time at which it was admitted; None while it waits."""
    evicted: bool = False
    """Its eviction has begun."""
    gated: bool = False
    """It may not preempt yet."""
    seconds: float = float("inf")
    """The most seconds from a promised start until its quota and nodes are free again."""
    usage: Amounts = field(default_factory=dict)
    """The quota that it uses. An entry of 0 counts as using that flavor and resource."""
    shape: Hashable = None
    """Equal for workloads that can be admitted under the same conditions; None: not known."""
    tried: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By pod set and resource, the index of the flavor that the search tries first."""
    refused: frozenset[str] = frozenset()
    """Flavors that the search leaves out, because the pods do not fit on their nodes."""

    @property
    def requests(self) -> Counter[str]:
        """Amounts of all its pods, by resource."""
        total: Counter[str] = Counter()
        for pods in self.pod_sets:
            total.update(pods.total(pods.count))
        return total

    @property
    def wanted(self) -> dict[str, int]:
        """``requests``, and the number of its pods, which a queue may count, too."""
        return {**self.requests, PODS: self.size}

    @property
    def size(self) -> int:
        """The number of its pods."""
        return sum(pods.count for pods in self.pod_sets)

    @cached_property
    def can_shrink(self) -> bool:
        """Whether it may be admitted with fewer pods than it asks for."""
        return any(
            pods.min_count is not None and pods.min_count < pods.count for pods in self.pod_sets
        )
