"""Run the Filter plugins of a profile, over any rows of any columns, from scratch.

Preemption (on forks with victims removed) and simulations call ``run_filters``, because they keep
nothing from one pod to the next. ``Feasibility`` calls the functions below it to evaluate a class
incrementally; a property test checks that both agree.

Rules: kube-scheduler v1.36 ``framework/runtime/framework.go``,
RunFilterPluginsWithNominatedPods. kube-scheduler runs all plugins on one node after another. Here
each plugin runs once, on all rows that the plugins before it let pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.filter_outcome import EXCLUDED, PASSED, FilterOutcome
from podsched.framework.nodes import ClusterView, ForkedColumns, JournaledColumns, NodeColumns
from podsched.framework.plugin import CycleState, FilterPlugin
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import Bits, Reason, Rows, Verdicts

FILTER_WORDING = 'running "{}" filter plugin'
NOTHING_SETTLED: Set[str] = frozenset()


def filter_one(
    named: Named[FilterPlugin], state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
) -> Verdicts:
    """Run one plugin's Filter. An exception is a verdict of Code.ERROR on every row."""
    # One call covers all rows, so it is unknown on which of them the plugin failed.
    try:
        verdicts = named.runs.call(
            named.name, FILTER_WORDING, named.plugin.filter, state, pod, nodes, rows
        )
    except PluginFailure as failure:
        named.runs.failed()
        return _all_failed(failure, len(rows))
    return _worded(named, verdicts)


def filter_all(
    named: Named[FilterPlugin],
    state: CycleState,
    pod: PodInfo,
    nodes: JournaledColumns,
    alive: Rows,
) -> Verdicts:
    """Run one plugin's Filter on all rows, faster if it has ``filter_all``.

    The bits have shape ``(size,)`` and may be written to; those of rows that are not ``alive`` are
    undefined. Without reasons no row is rejected, and the bits may have another shape.
    """
    if named.whole is None:
        of_alive = filter_one(named, state, pod, nodes, alive)
        if len(alive) == nodes.size or not of_alive.reasons:
            return of_alive
        bits = np.zeros(nodes.size, dtype=np.uint64)
        bits[alive] = of_alive.bits
        return Verdicts(bits, of_alive.reasons)
    try:
        verdicts = named.runs.call(named.name, FILTER_WORDING, named.whole, state, pod, nodes)
    except PluginFailure as failure:
        named.runs.failed()
        return _all_failed(failure, nodes.size)
    return _worded(named, verdicts)


def _all_failed(failure: PluginFailure, size: int) -> Verdicts:
    return Verdicts(np.ones(size, dtype=np.uint64), (Reason(Code.ERROR, str(failure)),))


def _worded(named: Named[FilterPlugin], verdicts: Verdicts) -> Verdicts:
    """Prefix the texts of Code.ERROR reasons with the plugin's name, and count a failed run."""
    if any(reason.code is Code.ERROR for reason in verdicts.reasons):
        named.runs.failed()
        wording = FILTER_WORDING.format(named.name)
        reasons = tuple(
            Reason(r.code, f"{wording}: {r.text}") if r.code is Code.ERROR else r
            for r in verdicts.reasons
        )
        return Verdicts(verdicts.bits, reasons)
    return verdicts


class _OutcomeBuilder:
    """Builds a FilterOutcome: for each row the first plugin that rejects it, and its reasons."""

    def __init__(self, runtime: ProfileRuntime, rows: Rows) -> None:
        self.names = runtime.filter_names
        self.rows = rows
        self.plugin = np.empty(len(rows), dtype=np.int16)
        self.plugin.fill(PASSED)
        self.bits: Bits = np.zeros(len(rows), dtype=np.uint64)
        #: Of the plugins that have rejected a row, by index.
        self.reasons: dict[int, list[Reason]] = {}

    def reject(self, index: int, places: Rows, bits: Bits, reasons: Sequence[Reason]) -> None:
        """Note that plugin ``index`` rejects the rows at ``places`` with these reason bits."""
        self.plugin[places] = index
        known = self.reasons.setdefault(index, [])
        self.bits[places] = renumbered(bits, reasons, known)

    def done(self) -> FilterOutcome:
        """Return the outcome; nothing may be added to it any more."""
        reasons: list[tuple[Reason, ...]] = [()] * len(self.names)
        for index, of_plugin in self.reasons.items():
            reasons[index] = tuple(of_plugin)
        return FilterOutcome(self.rows, self.plugin, self.bits, self.names, tuple(reasons), SUCCESS)


def renumbered(bits: Bits, reasons: Sequence[Reason], known: list[Reason]) -> Bits:
    """Return the bits in the numbering of ``known``, to which new reasons are added."""
    if not known:
        known.extend(reasons)
    # Usually the numbers are the same (``known`` may have more), so the bits need no change.
    if all(i < len(known) and known[i] == reason for i, reason in enumerate(reasons)):
        return bits
    result = np.zeros_like(bits)
    for i, reason in enumerate(reasons):
        if reason not in known:
            known.append(reason)
        # A word has 64 bits; the last stands for all further reasons.
        place = min(known.index(reason), 63)
        result |= (bits >> np.uint64(i) & np.uint64(1)) << np.uint64(place)
    return result


def rejected_everywhere(rows: Rows, status: Status) -> FilterOutcome:
    """Return the outcome on rows that Filter did not run for: all have the status of PreFilter."""
    plugin = np.full(len(rows), EXCLUDED, dtype=np.int16)
    return FilterOutcome(rows, plugin, np.zeros(len(rows), dtype=np.uint64), (), (), status)


def run_plain_filters(
    runtime: ProfileRuntime,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeColumns,
    rows: Rows,
    settled: Set[str] = NOTHING_SETTLED,
) -> FilterOutcome:
    """Filter without regard to nominated pods; the first plugin that rejects a row decides.

    ``settled``: plugins that are not called, because they are known to accept all these rows.
    """
    outcome = _OutcomeBuilder(runtime, rows)
    places, skipped = np.arange(len(rows)), state.skip_filter
    for index, named in enumerate(runtime.filter):
        if named.name in skipped or named.name in settled:
            continue
        if not len(places):
            break
        # Rows that an earlier plugin has rejected are left out: kube-scheduler stops there, too.
        verdicts = filter_one(named, state, pod, nodes, rows[places])
        if not verdicts.reasons:
            continue
        failed = verdicts.bits.nonzero()[0]
        if len(failed) == len(places):
            outcome.reject(index, places, verdicts.bits, verdicts.reasons)
            break
        if len(failed):
            outcome.reject(index, places[failed], verdicts.bits[failed], verdicts.reasons)
            places = places[verdicts.bits == 0]
    return outcome.done()


@dataclass(frozen=True, slots=True)
class Nominees:
    """Nominated pods that count on rows: ``pods[i]`` on the row at ``places[i]`` of the rows."""

    places: Rows
    pods: tuple[tuple[PodInfo, ...], ...]

    def __bool__(self) -> bool:
        return bool(len(self.places))


def nominees(pod: PodInfo, cluster: ClusterView, nodes: NodeColumns, rows: Rows) -> Nominees:
    """Return the other pods of equal or higher priority that are nominated to these rows."""
    base = nodes.base
    nominated_nodes = cluster.nominator.nodes()
    # Go through the smaller of the two.
    if len(rows) < len(nominated_nodes):
        return _nominees_of_few(pod, cluster, nodes, rows)
    counting: dict[int, tuple[PodInfo, ...]] = {}
    for name in nominated_nodes:
        row = base.row_of(name)
        others = counting_nominees(pod, cluster.nominator.pods(name))
        if row is not None and others:
            counting[row] = others
    if not counting:
        return Nominees(np.empty(0, dtype=np.intp), ())
    nominated = np.zeros(base.size, dtype=np.bool_)
    nominated[list(counting)] = True
    mine = rows if base is nodes else nodes.base_rows[rows]
    places = np.flatnonzero(nominated[mine])
    return Nominees(places, tuple(counting[int(mine[place])] for place in places))


def _nominees_of_few(
    pod: PodInfo, cluster: ClusterView, nodes: NodeColumns, rows: Rows
) -> Nominees:
    base = nodes.base
    names = base.names
    places, counting = [], []
    mine = rows if base is nodes else nodes.base_rows[rows]
    for place, row in enumerate(mine.tolist()):
        nominated = cluster.nominator.pods(names[row])
        others = counting_nominees(pod, nominated) if nominated else ()
        if others:
            places.append(place)
            counting.append(others)
    return Nominees(np.array(places, dtype=np.intp), tuple(counting))


def counting_nominees(pod: PodInfo, nominated: Iterable[PodInfo]) -> tuple[PodInfo, ...]:
    """Return the nominated pods that a filter for ``pod`` counts as if they were on the node."""
    priority = pod.priority
    return tuple(p for p in nominated if p.priority >= priority and p.uid != pod.uid)


def run_with_nominees(
    runtime: ProfileRuntime,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeColumns,
    rows: Rows,
    counted: Nominees,
    settled: Set[str] = NOTHING_SETTLED,
) -> FilterOutcome:
    """Run the first of the two passes: the nominated rows, with their nominated pods added.

    The outcome's ``rows`` are those of the fork that it ran on.
    """
    nominated = rows[counted.places]
    if nodes.base is not nodes:
        # Removing the pods again costs a third of what another fork would.
        fork = cast(ForkedColumns, nodes)
        added = add_nominees(fork, nominated.tolist(), counted.pods)
        try:
            return run_plain_filters(runtime, state, pod, fork, nominated, settled)
        finally:
            for row, other in added:
                fork.remove_pod(row, other)
    fork = fork_with_nominees(nodes, nominated, counted.pods)
    places = np.arange(len(nominated))
    return run_plain_filters(runtime, state, pod, fork, places, settled)


def fork_with_nominees(
    nodes: NodeColumns, rows: Rows, nominated: Sequence[Sequence[PodInfo]]
) -> ForkedColumns:
    """Return a fork of rows; row ``i`` gets the pods of ``nominated[i]`` that it does not have."""
    fork = nodes.fork(rows)
    add_nominees(fork, range(len(rows)), nominated)
    return fork


def add_nominees(
    fork: ForkedColumns, rows: Iterable[int], nominated: Iterable[Iterable[PodInfo]]
) -> list[tuple[int, PodInfo]]:
    """Add to each row its nominated pods, except those already there; return those added."""
    added = []
    for row, others in zip(rows, nominated, strict=True):
        there = fork.pods(row)
        for other in others:
            if other.uid not in there:
                fork.add_pod(row, other)
                added.append((row, other))
    return added


def run_filters(
    runtime: ProfileRuntime,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeColumns,
    rows: Rows,
    cluster: ClusterView,
    settled: Set[str] = NOTHING_SETTLED,
) -> FilterOutcome:
    """Filter in two passes: with the nominated pods that count, and without; both must succeed.

    The second pass leaves out rows that the first one rejects. ``settled``: plugins that are known
    to accept all these rows, with the nominated pods and without.
    """
    counted = nominees(pod, cluster, nodes, rows)
    if not counted:
        return run_plain_filters(runtime, state, pod, nodes, rows, settled)
    # First with the pods, as in kube-scheduler: a row that both passes would reject has the
    # reasons of this one.
    first = run_with_nominees(runtime, state, pod, nodes, rows, counted, settled)
    if len(counted.places) == len(rows) and PASSED not in first.plugin:
        # On live columns the first pass ran on a fork, so its outcome has the fork's rows. On a
        # fork it ran in place: nearly always a dry run on a node to which pods are nominated.
        return first if nodes.base is not nodes else replace(first, rows=rows)
    # A row with nominated pods needs the second pass only if it passed the first.
    left = np.ones(len(rows), dtype=np.bool_)
    left[counted.places] = first.plugin == PASSED
    merged = _OutcomeBuilder(runtime, rows)
    if left.any():
        second = run_plain_filters(runtime, state, pod, nodes, rows[left], settled)
        merged.plugin[left], merged.bits[left] = second.plugin, second.bits
        merged.reasons = {index: list(reasons) for index, reasons in second.rejecting()}
    for index, reasons in first.rejecting():
        rejected = first.plugin == index
        if rejected.any():
            merged.reject(index, counted.places[rejected], first.bits[rejected], reasons)
    return merged.done()


class Settled(NamedTuple):
    """Known results for one pod and CycleState.

    ``by_rows`` returns the plugins that accept rows of the live columns, whatever pods are there.
    """

    state: CycleState
    pod: PodInfo
    by_rows: Callable[[Rows], Set[str]]


class ProfileFilters:
    """``framework.plugin.FilterRunner`` for PostFilter plugins of one pod's cycle."""

    def __init__(
        self,
        runtime: ProfileRuntime,
        cluster: ClusterView,
        outcome: FilterOutcome,
        inputs: Hashable | None = None,
        settled: Settled | None = None,
    ) -> None:
        """Take the outcome of the pod's cycle; ``settled``: known results for its pod and state."""
        self._settled = settled
        self._runtime = runtime
        self._cluster = cluster
        self._outcome = outcome
        self._inputs = inputs

    @property
    def inputs(self) -> Hashable | None:
        """Versions of all data that the filters read beyond the rows; None if unknown."""
        return self._inputs

    @property
    def outcome(self) -> FilterOutcome:
        """The filters' outcome in this cycle."""
        return self._outcome

    def status(self, index: int) -> Status:
        """Return the status of the row at position ``index`` of ``outcome.rows``."""
        return self._outcome.status(index)

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> FilterOutcome:
        """Run the profile's filters on any rows; nominated pods are counted in two passes."""
        known, settled = self._settled, NOTHING_SETTLED
        if known is not None and known.state is state and known.pod is pod:
            live = self._cluster.nodes
            if nodes is live:
                settled = known.by_rows(rows)
            elif nodes.base is live:
                settled = known.by_rows(nodes.base_rows[rows])
        return run_filters(self._runtime, state, pod, nodes, rows, self._cluster, settled)
