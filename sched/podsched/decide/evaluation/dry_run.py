"""Dry runs of preemption for a part of the nodes, to be made in another process.

    leader                                               part (a shard of the nodes)
    plan_dry_run: which rows PostFilter would try
    dry_run_request: pod, state, budgets  ----------->   dry_run_rows: remove pods, filter, reprieve
    learn_dry_run: by row, victims or a status  <-----   DryRunResult: victims by uid

A dry run on one row costs several evaluations of it (one for each pod that may be reprieved), and
needs nothing of other rows, so it is worth sending away far earlier than a first evaluation. The
leader keeps the last word: PostFilter tries itself whatever did not come back or has changed since.
Victims travel as uids, for a part knows nothing else of them. Requests and results are plain values
that can be pickled; who carries them is not this module's business.

Guarantee: a part's answer for a row is what a local dry run gives, if the part has the row as it is
at the leader and no nominated pod counts on it (property test).
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
from podsched.framework.preemption import DryRunPlugin, VictimUids
from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class DryRunRequest:
    """A question to a part. ``pod`` is a serialized Pod, ``budgets`` are PodDisruptionBudgets.

    ``filters`` name the plugins that will run, whose state has to travel with the request.
    """

    scheduler_name: str
    pod: bytes
    state: CycleState
    budgets: tuple[bytes, ...]
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Victims by row where evicting them makes room, and the statuses of the rows where none do."""

    candidates: Mapping[int, VictimUids]
    rejected: tuple[tuple[Status, tuple[int, ...]], ...]


class RemoteDryRun(Protocol):
    """Makes dry runs in other processes."""

    def worth(self, nodes: int) -> bool:
        """Whether so many nodes are tried sooner remotely than locally."""
        ...

    async def dry_run(
        self, request: DryRunRequest, rows: Rows, traceparent: str = ""
    ) -> Sequence[DryRunResult]:
        """Return the results for some of the rows, or none, as they were at the call."""
        ...


def dry_run_plugin(runtime: ProfileRuntime) -> DryRunPlugin | None:
    """Return the first PostFilter plugin, if other processes may make its dry runs."""
    plugin = runtime.post_filter[0].plugin if runtime.post_filter else None
    return plugin if isinstance(plugin, DryRunPlugin) else None


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
    """Return what preemption reads of it."""
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
    rows = rows[rows < nodes.size]
    rows = rows[nodes.alive[rows]]
    # The leader has the outcome; a dry run asks the filters alone.
    runner = ProfileFilters(runtime, cluster, rejected_everywhere(NO_ROWS, SUCCESS))
    plugin = dry_run_plugin(runtime)
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
    """Return the result for the other rows alone."""
    left_out = set(unknown.tolist())
    return DryRunResult(
        {row: found for row, found in result.candidates.items() if row not in left_out},
        tuple((s, tuple(r for r in rows if r not in left_out)) for s, rows in result.rejected),
    )
