"""Optional protocols of PostFilter plugins that preempt pods.

With these protocols, extenders can veto candidates, other processes can make dry runs, long dry
runs are split into parts, and the plugin is notified of the evictions of its victims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, FilterRunner, Plugin, PostFilterResult, Victims
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


@runtime_checkable
class PreemptionPlugin(Protocol):
    """A PostFilter plugin in two steps, between which extenders may veto candidates."""

    def find_candidates(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult | dict[str, Victims]:
        """Return the victims by node name; PostFilter's result if there are no candidates."""

    def choose_candidate(
        self, candidates: Mapping[str, Victims], cluster: ClusterView
    ) -> PostFilterResult:
        """Return the best of the remaining candidates, if any; nodes may be gone meanwhile."""


@runtime_checkable
class EvictionListener(Protocol):
    """A PostFilter plugin that follows the evictions of the victims it returned.

    The scheduler evicts all victims but one, releases the preemptors, and evicts the last one,
    whose deletion is then the event that wakes the preemptors. The preemptors are one pod, or the
    members of a PodGroup. The victims of a plugin that is not an EvictionListener are evicted, too.
    """

    def evictions_started(self, preemptors: Sequence[PodInfo], victims: Victims) -> None:
        """Keep the preemptors out of the queue; count the victims as terminating."""

    def preemptors_released(self, preemptors: Sequence[PodInfo]) -> None:
        """Let the preemptors into the queue: the last victim is about to go, or an eviction failed.

        May be called more than once.
        """

    def evictions_ended(self, victims: Victims) -> None:
        """Stop counting victims as terminating: they are deleted, or an eviction failed."""


#: Uids of victims, most important first, and how many of them a budget protects.
VictimUids = tuple[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class DryRunPlan:
    """The rows on which a plugin would make dry runs next.

    ``as_of``: the state of the cluster, in a form that only the plugin reads.
    """

    rows: Rows
    as_of: Any


@runtime_checkable
class DryRunPlugin(Plugin, Protocol):
    """A PostFilter plugin whose dry runs other processes may make before ``post_filter``.

    ``post_filter`` then makes those that are missing or outdated.
    """

    def dry_run(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: NodeColumns,
        rows: Rows,
        runner: FilterRunner,
        budgets: Sequence[v1.PodDisruptionBudget],
    ) -> DryRuns:
        """Make the dry runs for a pod on some rows, without nominated pods."""

    def plan_dry_run(
        self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> DryRunPlan | None:
        """Return the rows that PostFilter would try next if it were called now; None for none.

        These are its first rows or, if their results are known, all others.
        """

    def learn_dry_run(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        plan: DryRunPlan,
        found: Mapping[int, VictimUids | Status],
    ) -> None:
        """Use results that another process computed for the plan, by row.

        They are for the nodes as they were at ``plan_dry_run``, without nominated pods.
        """


@dataclass(slots=True)
class DryRuns:
    """Results of dry runs by row: the victims whose eviction makes room, or why there are none."""

    candidates: dict[int, Victims] = field(default_factory=dict)
    rejected: dict[int, Status] = field(default_factory=dict)


@runtime_checkable
class DividedDryRun(Plugin, Protocol):
    """A PostFilter plugin that can make its dry runs in parts, to block the loop only briefly.

    ``post_filter`` then makes those that are missing or outdated.
    """

    def dry_run_some(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        runner: FilterRunner,
        draw: float,
        should_stop: Callable[[], bool],
    ) -> bool:
        """Make the dry runs of PostFilter, at least one, until ``should_stop`` returns True.

        Returns whether nodes are left to be tried later, with the state of a new decision.
        ``draw``: the random number that PostFilter would draw.
        """


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """The result of preemption on each node where it may help, by node name.

    ``eligible``: whether the pod may preempt at all. ``best``: the best nodes, of which one
    would be chosen at random; empty without a candidate. ``untried``: the number of nodes left out.
    """

    eligible: Status
    candidates: Mapping[str, Victims] = field(default_factory=dict)
    rejected: Mapping[str, Status] = field(default_factory=dict)
    best: tuple[str, ...] = ()
    untried: int = 0


@runtime_checkable
class ExplainsPreemption(Protocol):
    """A PostFilter plugin that can report what it would do on every node, for simulations."""

    def explain_preemption(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        runner: FilterRunner,
        most: int | None = None,
    ) -> PreemptionReport:
        """Try all nodes, or ``most`` of those that have victims; change nothing."""
