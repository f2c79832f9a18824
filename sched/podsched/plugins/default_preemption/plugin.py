"""DefaultPreemption: makes room for a pod by evicting pods of lower priority.

PostFilter takes the nodes where preemption might help (status Unschedulable, not
UnschedulableAndUnresolvable), selects the victims on each by a dry run, and picks the node whose
victims cost least (``dry_run.cost``). The leader's ``term`` then evicts them; meanwhile PreEnqueue
keeps the preemptor out of activeQ.

Source: ``framework/preemption/preemption.go`` and ``framework/plugins/defaultpreemption`` of
kube-scheduler v1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    REASON_PREEMPTION_BY_SCHEDULER,
    true_condition,
)
from podsched.config.plugin_args import DefaultPreemptionArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.fit_error import fit_error_message
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, FilterRunner, Handle, PostFilterResult, Victims
from podsched.framework.pod_groups import PodGroup, VictimSearch
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import DryRunPlan, DryRuns, PreemptionReport, VictimUids
from podsched.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from podsched.framework.verdicts import Rows
from podsched.plugins.default_preemption.dry_run import BUDGET, Budgets, DryRun, cost, dry_run
from podsched.plugins.default_preemption.dry_run_cache import Found
from podsched.plugins.default_preemption.node_search import NodeSearch
from podsched.plugins.default_preemption.pod_group import (
    MEMBER_OF_GROUP,
    MEMBER_OF_PLACEMENT,
    REASON_NEVER,
    REASON_TERMINATING,
    search_victims,
)
from podsched.v1 import objects_pb2 as v1

REASON_NOT_HELPFUL = "Preemption is not helpful for scheduling"
REASON_NO_CANDIDATE = "no candidate node for preemption"
REASON_IN_PROGRESS = "waiting for the preemption for this pod to be finished"
PREFIX = "preemption: "
_IN_PROGRESS = unresolvable(REASON_IN_PROGRESS)
_GROUP_IN_PROGRESS = unresolvable("waiting for the preemption for this pod group to be finished")


def is_terminating_by_preemption(pod: PodInfo) -> bool:
    """Return whether the pod is being deleted because a scheduler preempted it."""
    target = true_condition(pod.pod.status, DISRUPTION_TARGET) if pod.terminating else None
    return target is not None and target.reason == REASON_PREEMPTION_BY_SCHEDULER


class DefaultPreemption:
    """PreEnqueue holds preemptors back during evictions; PostFilter chooses node and victims."""

    name: ClassVar[str] = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self.node_search = NodeSearch(args, handle)
        #: uids of the pods whose evictions are being carried out.
        self._preempting: set[str] = set()
        #: uids of victims whose eviction has been requested. They count as terminating before the
        #: cluster's state shows it.
        self._evicting: set[str] = set()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Gate a preemptor until the evictions of its victims have been requested."""
        if pod.uid in self._preempting:
            return _GROUP_IN_PROGRESS if pod.group else _IN_PROGRESS
        return SUCCESS

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult:
        found = self._search(state, pod, cluster, runner)
        if isinstance(found, PostFilterResult):
            return found
        tried, row = found
        return PostFilterResult(SUCCESS, cluster.nodes.names[row], tried.victims(row))

    def find_candidates(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult | dict[str, Victims]:
        """Return the victims by node name, or PostFilter's result if there are no candidates."""
        found = self._search(state, pod, cluster, runner)
        if isinstance(found, PostFilterResult):
            return found
        names = cluster.nodes.names
        candidates = found[0].results().candidates
        return {names[row]: victims for row, victims in candidates.items()}

    def _search(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult | tuple[Found, int]:
        """Return the dry runs and the best row, or PostFilter's result if there is none."""
        # As in kube-scheduler, a pod that may not preempt keeps its nomination, because its victims
        # may still be terminating there. A pod for which no node can be found loses it.
        eligible = self.eligibility(pod, cluster, runner)
        if not eligible.ok:
            return PostFilterResult(unschedulable(PREFIX + eligible.message))
        found = self.node_search.search(state, pod, cluster, runner)
        best = None if found is None else found.best()
        if found is not None and best is not None:
            return found, best
        results = DryRun() if found is None else found.results()
        if failures := _failures(results):
            return PostFilterResult(error(PREFIX + failures))
        message = _fit_error(runner, results)
        return PostFilterResult(unschedulable(PREFIX + message), nominated_node_name="")

    def choose_candidate(
        self, candidates: Mapping[str, Victims], cluster: ClusterView
    ) -> PostFilterResult:
        """Return PostFilter's result for the best candidate whose node still exists."""
        found = ((cluster.nodes.row_of(name), victims) for name, victims in candidates.items())
        there = {row: victims for row, victims in found if row is not None}
        if not there:
            return PostFilterResult(unschedulable(PREFIX + REASON_NO_CANDIDATE))
        row = best_candidates(there)[0]
        return PostFilterResult(SUCCESS, cluster.nodes.names[row], there[row])

    def explain_preemption(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        runner: FilterRunner,
        most: int | None = None,
    ) -> PreemptionReport:
        eligible = self.eligibility(pod, cluster, runner)
        if not eligible.ok:
            return PreemptionReport(eligible)
        nodes, names = cluster.nodes, cluster.nodes.names
        budgets = Budgets(cluster.list(BUDGET))
        rows, untried = _first_with_victims(nodes, runner.outcome.resolvable, pod, most)
        tried = dry_run(state, pod, nodes, rows, runner, budgets)
        best = best_candidates(tried.candidates) if tried.candidates else ()
        return PreemptionReport(
            eligible,
            {names[row]: victims for row, victims in tried.candidates.items()},
            {names[row]: status for row, status in tried.rejected.items()},
            tuple(sorted(names[row] for row in best)),
            untried,
        )

    def dry_run(
        self,
        state: CycleState,
        pod: PodInfo,
        nodes: NodeColumns,
        rows: Rows,
        runner: FilterRunner,
        budgets: Sequence[v1.PodDisruptionBudget],
    ) -> DryRuns:
        return dry_run(state, pod, nodes, rows, runner, Budgets(budgets))

    def plan_dry_run(
        self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> DryRunPlan | None:
        if runner.inputs is None or not self.eligibility(pod, cluster, runner).ok:
            return None
        return self.node_search.plan(pod, cluster, runner)

    def learn_dry_run(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        plan: DryRunPlan,
        found: Mapping[int, VictimUids | Status],
    ) -> None:
        self.node_search.dry_runs.learn(pod, cluster, plan.as_of, found)

    def dry_run_some(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        runner: FilterRunner,
        draw: float,
        should_stop: Callable[[], bool],
    ) -> bool:
        if not self.eligibility(pod, cluster, runner).ok:
            return False
        return self.node_search.search_some(state, pod, cluster, runner, draw, should_stop)

    def search_victims(
        self, group: PodGroup, members: Sequence[PodInfo], cluster: ClusterView
    ) -> VictimSearch:
        return search_victims(group, members, cluster, self._evicting)

    def member_message(self, group: PodGroup) -> str:
        return PREFIX + (MEMBER_OF_PLACEMENT if group.topology_key else MEMBER_OF_GROUP)

    def evictions_started(self, preemptors: Sequence[PodInfo], victims: Victims) -> None:
        """Gate the preemptors, and count the victims as terminating."""
        self._preempting.update(pod.uid for pod in preemptors)
        self._evicting.update(victim.uid for victim in victims.pods)

    def preemptors_released(self, preemptors: Sequence[PodInfo]) -> None:
        """Stop gating the preemptors."""
        self._preempting.difference_update(pod.uid for pod in preemptors)

    def evictions_ended(self, victims: Victims) -> None:
        """Stop counting the victims as terminating: from now on the cluster's pods show it."""
        self._evicting.difference_update(victim.uid for victim in victims.pods)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods that had a node, such as the victims."""
        event = ActionType.DELETE
        return (ClusterEventWithHint.on(Resource.ASSIGNED_POD, event, _after_pod_deleted),)

    # ------------------------------------------------------------------ choosing

    def eligibility(self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner) -> Status:
        """Return SUCCESS if the pod may preempt at all (``PodEligibleToPreemptOthers``)."""
        if pod.cls.preemption_policy == "Never":
            return unschedulable(REASON_NEVER)
        # ``cluster`` knows a nomination before the pod's status shows it.
        nominated_node = cluster.nominator.node_of(pod.uid)
        row = cluster.nodes.row_of(nominated_node) if nominated_node else None
        if row is None:
            return SUCCESS
        # Where no eviction helps, there is nothing to wait for.
        index = np.flatnonzero(runner.outcome.rows == row)
        unhelpful = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if len(index) and runner.status(int(index[0])).code is unhelpful:
            return SUCCESS
        for other in cluster.nodes.pods(row).values():
            going = other.uid in self._evicting or is_terminating_by_preemption(other)
            if going and other.priority < pod.priority:
                return unschedulable(REASON_TERMINATING)
        return SUCCESS


def _after_pod_deleted(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    # While evictions are under way, PreEnqueue keeps the pod out of activeQ. Afterwards any deleted
    # pod may have made room.
    return QueueingHint.QUEUE


def _failures(found: DryRun) -> str:
    """Return the errors of dry runs, as Go prints several of them; "" without any."""
    errors = [status.message for status in found.rejected.values() if status.code is Code.ERROR]
    return f"[{', '.join(dict.fromkeys(errors))}]" if len(errors) > 1 else "".join(errors)


def _fit_error(runner: FilterRunner, found: DryRun) -> str:
    total = len(runner.outcome.rows)
    reasons = Counter(text for status in found.rejected.values() for text in status.reasons)
    if untried := total - len(found.rejected):
        reasons[REASON_NOT_HELPFUL] += untried
    return fit_error_message(total, reasons)


def _first_with_victims(
    nodes: NodeColumns, rows: Rows, pod: PodInfo, most: int | None
) -> tuple[Rows, int]:
    """Return the first rows, at most ``most`` of them with potential victims, and the number left.

    With ``most`` None, return all rows.
    """
    if most is None:
        return rows, 0
    for place, row in enumerate(rows.tolist()):
        most -= any(other.priority < pod.priority for other in nodes.pods(row).values())
        if most < 0:
            return rows[:place], len(rows) - place
    return rows, 0


def best_candidates(candidates: Mapping[int, Victims]) -> list[int]:
    """Return the rows whose victims cost least, ascending."""
    costs = {row: cost(victims) for row, victims in candidates.items()}
    cheapest = min(costs.values())
    return sorted(row for row, key in costs.items() if key == cheapest)
