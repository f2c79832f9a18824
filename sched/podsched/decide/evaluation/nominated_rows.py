"""Rows with nominated pods, on which a pod class is filtered twice.

If pods of equal or higher priority are nominated to a node, kube-scheduler
(RunFilterPluginsWithNominatedPods) filters the node once with these pods added and once without,
because they may never arrive; both passes must succeed. ``Feasibility`` keeps the second pass for
every row; this module makes the first pass, on a fork of only the nominated rows.

A class keeps one list of nominated pods per row. A nominated pod must not count against itself:
``Selector.fitting_nominee`` handles that with ``override_row``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from podsched.decide.evaluation.filtering import Nominees, run_with_nominees
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.filter_outcome import FilterOutcome
from podsched.framework.nodes import Bools, ClusterView
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows


class NominatedRows:
    """The nominated pods that count for a class, by row."""

    def __init__(self, runtime: ProfileRuntime, cluster: ClusterView, priority: int) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._priority = priority
        #: The filters whose verdicts do not change when pods come and go.
        self._settled = {n.name for n in runtime.filter if n.traits.reads_only_nodes}
        self._pods: dict[int, tuple[PodInfo, ...]] = {}
        #: (nominations, topology) versions of ``_pods``; None: read all nominations again.
        self._versions: tuple[int, int] | None = None

    @property
    def rows(self) -> list[int]:
        """The rows, in no order."""
        return list(self._pods)

    def clear(self) -> None:
        """Forget everything."""
        self._pods = {}
        self._versions = None

    def continue_from(self, other: NominatedRows) -> None:
        """Start with the nominated pods of another class, if the priorities are equal."""
        if other._priority == self._priority:
            self._pods, self._versions = dict(other._pods), other._versions

    def read_again(self) -> None:
        """Make the next refresh read all nominations, not only those that changed."""
        self._versions = None

    def refresh(self, candidate: Bools) -> Rows:
        """Read the nominations; return the candidate rows whose nominated pods changed."""
        versions = (self._cluster.nominator.version, self._cluster.nodes.topology_version)
        before, self._versions = self._versions, versions
        if versions == before:
            return NO_ROWS
        names, nominator = None, self._cluster.nominator
        # Only with the same topology: otherwise rows may belong to other nodes. And not far behind:
        # after 32,768 changes the nodes of all were read for 6 ms at 5,000 nodes, 40 ms at 50,000.
        most = len(nominator.nodes()) + len(self._pods)
        if before and before[1] == versions[1] and versions[0] - before[0] <= most:
            names = nominator.changed_since(before[0])
        everything = names is None
        now = self._read(nominator.nodes() if names is None else names, candidate)
        if everything:
            # Rows whose nominations are gone are not among the nodes that were read.
            now.update((row, ()) for row in self._pods.keys() - now.keys())
        differ = sorted(row for row, pods in now.items() if pods != self._pods.get(row, ()))
        for row in differ:
            if now[row]:
                self._pods[row] = now[row]
            else:
                del self._pods[row]
        rows = np.array(differ, dtype=np.intp)
        return rows[candidate[rows]]

    def _read(self, names: Iterable[str], candidate: Bools) -> dict[int, tuple[PodInfo, ...]]:
        """Return the nominated pods that count, by row; () where there are none."""
        found: dict[int, tuple[PodInfo, ...]] = {}
        for name in names:
            row = self._cluster.nodes.row_of(name)
            if row is not None:
                pods = self._cluster.nominator.pods(name) if candidate[row] else ()
                found[row] = tuple(p for p in pods if p.priority >= self._priority)
        return found

    def first_pass(
        self, state: CycleState, pod: PodInfo, rows: Rows
    ) -> tuple[Rows, FilterOutcome] | None:
        """Filter the nominated rows among ``rows``, with their pods added; None if there are none.

        Plugins that read only Nodes are skipped: nominated pods do not change their verdicts.
        """
        places = self._places_in(rows) if self._pods else NO_ROWS
        if not len(places):
            return None
        counted = Nominees(places, tuple(self._pods[row] for row in rows[places].tolist()))
        nodes = self._cluster.nodes
        outcome = run_with_nominees(self._runtime, state, pod, nodes, rows, counted, self._settled)
        return rows[places], outcome

    def _places_in(self, rows: Rows) -> Rows:
        """Return the indices of nominated rows in ``rows``, in the cheaper of two ways."""
        if len(rows) < len(self._pods):
            mine = [place for place, row in enumerate(rows.tolist()) if row in self._pods]
            return np.array(mine, dtype=np.intp)
        marked = np.zeros(self._cluster.nodes.size, dtype=np.bool_)
        marked[list(self._pods)] = True
        return np.flatnonzero(marked[rows])


def nominated_node(cluster: ClusterView, pod: PodInfo) -> str:
    """Return the name of the node that a pod is nominated to, or "".

    The cache knows the nomination before the pod's status does: a victim may be gone before the
    patch with the nomination comes back.
    """
    return cluster.nominator.node_of(pod.uid) or pod.nominated_node_name


def nominated_row(cluster: ClusterView, pod: PodInfo) -> int | None:
    """Return the row of a pod's nominated node, if it has one and the node is there."""
    name = nominated_node(cluster, pod)
    return cluster.nodes.row_of(name) if name else None
