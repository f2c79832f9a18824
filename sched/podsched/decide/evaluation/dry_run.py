"""Make dry runs of preemption for a part of the nodes in another process.

    leader                                               part (a shard of the nodes)
    plan_dry_run: which rows PostFilter would try
    dry_run_request: pod, state, budgets  ----------->   dry_run_rows: remove pods, filter, reprieve
    learn_dry_run: by row, victims or a status  <-----   DryRunResult: victims by uid

A dry run on one row costs several evaluations of the row (one for each pod that may be reprieved)
and needs no other rows. So remote dry runs pay off at far fewer nodes than remote first
evaluations. PostFilter in the leader tries all rows that have no result or have changed since.
Victims are sent as uids, because parts know nothing else of them. Requests and results are plain
values that can be pickled; transport is done elsewhere.

Guarantee: a part's result for a row equals a local dry run, if the part's row is the same as the
leader's and no nominated pod counts on it (property test).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.decide.evaluation.filtering import ProfileFilters, rejected_everywhere
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import VictimUids
from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class DryRunRequest:
    """A request to a part. ``pod`` is a serialized Pod, ``budgets`` are PodDisruptionBudgets.

    ``filters`` names the plugins that will run; their state is sent with the request.
    """

    scheduler_name: str
    pod: bytes
    state: CycleState
    budgets: tuple[bytes, ...]
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Victims of rows where evicting them makes room, and statuses of the other rows."""

    candidates: Mapping[int, VictimUids]
    rejected: tuple[tuple[Status, tuple[int, ...]], ...]


class RemoteDryRun(Protocol):
    """Makes dry runs in other processes."""

    def worth(self, nodes: int) -> bool:
        """Whether remote dry runs are faster than local ones for this many nodes."""

    async def dry_run(
        self, request: DryRunRequest, rows: Rows, traceparent: str = ""
    ) -> Sequence[DryRunResult]:
        """Return results for some rows, or none, based on the rows' state at the call."""


def dry_run_request(
    runtime: ProfileRuntime, state: CycleState, pod: PodInfo, cluster: ClusterView
) -> DryRunRequest:
    """Return the request for a pod for which PreFilter has made ``state``."""
    filters = (named.name for named in runtime.filter)
    return DryRunRequest(
        runtime.scheduler_name,
        pod.pod.SerializeToString(),
        state,
        tuple(_plain(budget) for budget in cluster.list("PodDisruptionBudget")),
        tuple(name for name in filters if name not in state.skip_filter),
    )


def _plain(budget: v1.PodDisruptionBudget) -> bytes:
    """Serialize the fields of a budget that preemption reads."""
    plain = v1.PodDisruptionBudget()
    plain.metadata.namespace = budget.metadata.namespace
    plain.spec.selector.CopyFrom(budget.spec.selector)
    plain.status.disruptions_allowed = budget.status.disruptions_allowed
    for name in budget.status.disrupted_pods:
        plain.status.disrupted_pods[name].CopyFrom(budget.status.disrupted_pods[name])
    return plain.SerializeToString()


def dry_run_rows(
    runtime: ProfileRuntime,
    cluster: ClusterView,
    classes: PodClasses,
    request: DryRunRequest,
    rows: Rows,
) -> DryRunResult:
    """Answer a request for those of the rows that hold a node here.

    Rows where a filter fails are left out: the leader's own run fails there, too, and reports it.
    """
    nodes = cluster.nodes
    pod = make_pod_info(v1.Pod.FromString(request.pod), classes)
    budgets = [v1.PodDisruptionBudget.FromString(one) for one in request.budgets]
    # The part may be behind or ahead of the leader: rows may not exist yet, or have lost their
    # node.
    rows = rows[rows < nodes.size]
    rows = rows[nodes.alive[rows]]
    # The leader has the outcome; a dry run asks the filters alone.
    runner = ProfileFilters(runtime, cluster, rejected_everywhere(NO_ROWS, SUCCESS))
    plugin = runtime.dry_run
    assert plugin is not None, "the leader asks only where it has one itself"
    tried = plugin.dry_run(request.state, pod, nodes, rows, runner, budgets)
    rejected: dict[Status, list[int]] = {}
    for row, status in tried.rejected.items():
        if status.code is not Code.ERROR:
            rejected.setdefault(status, []).append(row)
    candidates = {
        row: (tuple(victim.uid for victim in victims.pods), victims.num_pdb_violations)
        for row, victims in tried.candidates.items()
    }
    return DryRunResult(candidates, tuple((s, tuple(rows)) for s, rows in rejected.items()))


def merged(results: Sequence[DryRunResult]) -> dict[int, VictimUids | Status]:
    """Return the results of several parts by row."""
    found: dict[int, VictimUids | Status] = {}
    for result in results:
        found.update(result.candidates)
        for status, rows in result.rejected:
            found.update(dict.fromkeys(rows, status))
    return found


def without_rows(result: DryRunResult, unknown: Rows) -> DryRunResult:
    """Return the result for the other rows only."""
    left_out = set(unknown.tolist())
    return DryRunResult(
        {row: found for row, found in result.candidates.items() if row not in left_out},
        tuple((s, tuple(r for r in rows if r not in left_out)) for s, rows in result.rejected),
    )
