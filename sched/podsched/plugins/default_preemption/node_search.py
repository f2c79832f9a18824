"""Which nodes DefaultPreemption tries, and in which order, until there are enough candidates.

The nodes are tried from a random one on. Some of the dry runs may be made ahead of PostFilter: by
other processes (``plan``), or in parts, between which the event loop does other work
(``search_some``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from podsched.config.plugin_args import DefaultPreemptionArgs
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, FilterRunner, Handle
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import DryRunPlan
from podsched.framework.verdicts import Rows
from podsched.plugins.default_preemption.dry_run import DryRun
from podsched.plugins.default_preemption.dry_run_cache import DryRunCache, Found


class _Ahead(NamedTuple):
    """The dry runs that ``search_some`` made before PostFilter, in one attempt of a pod."""

    uid: str
    state: CycleState
    found: Found


class NodeSearch:
    """Searches for candidates among the nodes where preemption might help."""

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._handle = handle
        self._percentage = args.min_candidate_nodes_percentage
        self._absolute = args.min_candidate_nodes_absolute
        self.dry_runs = DryRunCache()
        #: The uid of the pod that a remote dry run was planned for, and the number drawn for it:
        #: PostFilter must begin at the same node.
        self._drawn: tuple[str, float] | None = None
        self._ahead: _Ahead | None = None

    def search(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> Found | None:
        """Return the dry runs; None if preemption can help on no node, so that none was made.

        If another process made the best row's dry run, it is repeated here. If the results differ,
        the nodes are tried again in this process.
        """
        rows = runner.outcome.resolvable
        if not len(rows):
            return None
        chunks = self._chunks(rows, self._draw(pod))
        found = self._found_ahead(state, cluster, runner)
        if found is None:
            found = self.dry_runs.search(state, pod, cluster, chunks, runner)
        best = found.best()
        if best is not None and not self.dry_runs.confirm(state, pod, cluster, best, runner):
            found = self.dry_runs.search(state, pod, cluster, chunks, runner)
        return found

    def plan(self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner) -> DryRunPlan | None:
        """Return the dry runs that other processes may make; see ``DryRunPlugin``."""
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
        return DryRunPlan(untried, self.dry_runs.moment(pod, cluster)) if len(untried) else None

    def search_some(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        runner: FilterRunner,
        draw: float,
        should_stop: Callable[[], bool],
    ) -> bool:
        """Make some of the dry runs; return whether others are left for the next call."""
        rows = runner.outcome.resolvable
        if not len(rows):
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

    def _found_ahead(
        self, state: CycleState, cluster: ClusterView, runner: FilterRunner
    ) -> Found | None:
        """Return the dry runs of ``search_some`` in this attempt, if nothing has changed since."""
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
