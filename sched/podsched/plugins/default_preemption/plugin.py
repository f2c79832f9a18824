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
from typing import Any, ClassVar, NamedTuple

import numpy as np

from podsched.api.conditions import DISRUPTION_TARGET, REASON_PREEMPTION_BY_SCHEDULER
from podsched.config.plugin_args import DefaultPreemptionArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.fit_error import fit_error_message
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, FilterRunner, Handle, PostFilterResult, Victims
from podsched.framework.pod_groups import PodGroup, VictimSearch
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import DryRunPlan, DryRuns, PreemptionReport, VictimUids
from podsched.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from podsched.framework.verdicts import Rows
from podsched.plugins.default_preemption.dry_run import BUDGET, Budgets, DryRun, cost, dry_run
from podsched.plugins.default_preemption.dry_run_cache import DryRunCache, Found
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
    return pod.terminating and any(
        c.type == DISRUPTION_TARGET
        and c.status == "True"
        and c.reason == REASON_PREEMPTION_BY_SCHEDULER
        for c in pod.pod.status.conditions
    )


class _Ahead(NamedTuple):
    """The dry runs that ``dry_run_some`` made before PostFilter, in one attempt of a pod."""

    uid: str
    state: CycleState
    found: Found


class DefaultPreemption:
    """PreEnqueue holds preemptors back during evictions; PostFilter chooses node and victims."""

    name: ClassVar[str] = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._handle = handle
        self._percentage = args.min_candidate_nodes_percentage
        self._absolute = args.min_candidate_nodes_absolute
        self.dry_runs = DryRunCache()
        #: The uid of the pod that a remote dry run was planned for, and the number drawn for it:
        #: PostFilter must begin at the same node.
        self._drawn: tuple[str, float] | None = None
        self._ahead: _Ahead | None = None
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
        """Return the dry runs and the best row, or PostFilter's result if there is none.

        Nodes are tried, from a random one on, until there are enough candidates. If another process
        made the best row's dry run, it is repeated here. If the results differ, the nodes are tried
        again in this process.
        """
        # As in kube-scheduler, a pod that may not preempt keeps its nomination, because its victims
        # may still be terminating there. A pod for which no node can be found loses it.
        eligible = self.eligibility(pod, cluster, runner)
        if not eligible.ok:
            return PostFilterResult(unschedulable(PREFIX + eligible.message))
        rows = runner.outcome.resolvable
        if not len(rows):
            message = self._fit_error(runner, DryRun())
            return PostFilterResult(unschedulable(PREFIX + message), nominated_node_name="")
        chunks = self._chunks(rows, self._draw(pod))
        found = self._found_ahead(state, cluster, runner)
        if found is None:
            found = self.dry_runs.search(state, pod, cluster, chunks, runner)
        best = found.best()
        if best is not None and not self.dry_runs.confirm(state, pod, cluster, best, runner):
            found = self.dry_runs.search(state, pod, cluster, chunks, runner)
            best = found.best()
        if best is None:
            message = self._fit_error(runner, found.results())
            return PostFilterResult(unschedulable(PREFIX + message), nominated_node_name="")
        return found, best

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
        rows = runner.outcome.resolvable
        if not len(rows):
            return None
        draw = self._draw(pod)
        self._drawn = pod.uid, draw
        chunks = self._chunks(rows, draw)
        found, untried = DryRun(), np.empty(0, dtype=np.intp)
        for number, chunk in enumerate(chunks):
            known, unknown = self.dry_runs.cached(pod, cluster, chunk, runner)
            found.add(known)
            untried = np.concatenate([untried, unknown])
            if (len(untried) and not number) or found.suffices(len(chunks[0])):
                break
        return DryRunPlan(untried, self.dry_runs.moment(pod)) if len(untried) else None

    def learn_dry_run(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        plan: DryRunPlan,
        found: Mapping[int, VictimUids | Status],
    ) -> None:
        self.dry_runs.learn(pod, cluster, plan.as_of, found)

    def dry_run_some(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        runner: FilterRunner,
        draw: float,
        should_stop: Callable[[], bool],
    ) -> bool:
        rows = runner.outcome.resolvable
        if not len(rows) or not self.eligibility(pod, cluster, runner).ok:
            return False
        chunks = self._chunks(rows, draw)
        found = self.dry_runs.search(state, pod, cluster, chunks, runner, should_stop)
        before, self._ahead = self._ahead, _Ahead(pod.uid, state, found)
        if found.is_complete:
            return False
        # If data that the filters read beyond the row changes between any two calls, all results
        # are dropped each time, and the dry runs would never end. Then PostFilter makes them at
        # once.
        return before is None or before.uid != pod.uid or before.found.memory is found.memory

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
        return (ClusterEventWithHint.on(Resource.ASSIGNED_POD, event, self._after_pod_deleted),)

    def _after_pod_deleted(self, pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        del pod, old, new
        # While evictions are under way, PreEnqueue keeps the pod out of activeQ. Afterwards any
        # deleted pod may have made room.
        return QueueingHint.QUEUE

    # ------------------------------------------------------------------ choosing

    def eligibility(self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner) -> Status:
        """Return SUCCESS if the pod may preempt at all (``PodEligibleToPreemptOthers``)."""
        if pod.cls.preemption_policy == "Never":
            return unschedulable(REASON_NEVER)
        # ``cluster`` knows a nomination before the pod's status shows it.
        nominated_node = cluster.nominator.node_of(pod.uid) or pod.nominated_node_name
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

    def _found_ahead(
        self, state: CycleState, cluster: ClusterView, runner: FilterRunner
    ) -> Found | None:
        """Return the dry runs of ``dry_run_some`` in this attempt, if nothing has changed since."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.state is not state:
            return None
        found = ahead.found
        return found if found.is_complete and found.holds(cluster, runner) else None

    def _chunks(self, rows: Rows, draw: float) -> Sequence[Rows]:
        """Return the rows in the order in which they are tried, in chunks.

        A chunk has as many rows as candidates are wanted (``GetOffsetAndNumCandidates``). ``draw``,
        in [0, 1), is the share of the rows that is skipped at first.
        """
        wanted = min(len(rows), max(len(rows) * self._percentage // 100, self._absolute))
        offset = int(draw * len(rows))
        rotated = np.concatenate([rows[offset:], rows[:offset]])
        size = max(wanted, 1)
        return [rotated[start : start + size] for start in range(0, len(rotated), size)]

    def _draw(self, pod: PodInfo) -> float:
        """Return a number in [0, 1): random, or the one drawn for the planned remote dry run."""
        drawn, self._drawn = self._drawn, None
        return drawn[1] if drawn is not None and drawn[0] == pod.uid else self._handle.random()

    def _fit_error(self, runner: FilterRunner, found: DryRun) -> str:
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
