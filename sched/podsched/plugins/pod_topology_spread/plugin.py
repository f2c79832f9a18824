"""PodTopologySpread: spreads pods evenly over topology domains.

Rules: kube-scheduler v1.36 ``framework/plugins/podtopologyspread``. DoNotSchedule constraints are
called *hard* here, ScheduleAnyway constraints *soft*. The cache counts, for each row, the pods that
a constraint selects. So a decision looks at no single pod: it adds these counts up over the domains
(``counts``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from podsched.config.plugin_args import DefaultingType, PodTopologySpreadArgs
from podsched.framework.events import ClusterEventWithHint
from podsched.framework.lookahead import Lookahead
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    GroupScores,
    Handle,
    PreFilterResult,
    Remedy,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, SUCCESS, Code, Status, error
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.plugins.pod_topology_spread.constraints import Defaulting
from podsched.plugins.pod_topology_spread.counts import (
    HardSpread,
    SoftSpread,
    hard_spreads,
    soft_spreads,
)
from podsched.plugins.pod_topology_spread.entries import Entries
from podsched.plugins.pod_topology_spread.hints import SpreadHints
from podsched.plugins.pod_topology_spread.lookahead import ConstraintLookahead, SpreadLookahead
from podsched.plugins.rows.base_rows import rows_of_base

REASON = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_LABEL = REASON + " (missing required label)"

#: Up to this many scores, such as those of a few zones, are normalised one by one: a call of NumPy
#: takes 1 µs.
FEW_SCORES: Final = 16
#: The raw score of nodes that lack a topology key; they get 0 and do not count in normalisation.
IGNORED: Final = -1


@dataclass(slots=True)
class _Scoring:
    """The results of PreScore; ``ignored``, of shape ``(size,)``: the rows that are not scored.

    With a single constraint, ``table`` has a score for each domain, and ``entries``, of shape
    ``(size,)``, the index of each row's score in it.
    """

    spreads: list[SoftSpread]
    ignored: Bools
    table: Scores | None = None
    entries: NDArray[np.intp] | None = None


class PodTopologySpread:
    """Filter looks at DoNotSchedule constraints, Score at ScheduleAnyway constraints."""

    name: ClassVar[str] = "PodTopologySpread"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False,
        reads_requests=False,
        reads_volumes=False,
        projects_placed_pods=False,
        skips_by_class=True,
        remedies=frozenset({Remedy.PODS_ELSEWHERE}),
    )

    #: The key of Score's entry in CycleState (``_Scoring``). The key of Filter's, a list of
    #: ``HardSpread``, is the plugin's name.
    score_key: ClassVar[str] = "PodTopologySpread/score"

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        listed = args.defaulting_type == DefaultingType.LIST
        defaulting = Defaulting(args.default_constraints, False) if listed else Defaulting()
        self._handle = handle
        self._entries = Entries(defaulting)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return a number that stands for all that is read of the pod (``Entries``)."""
        return self._entries.of(pod, cluster).serial

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of the constraints, of labels and taints, and of the counts."""
        entry = self._entries.of(pod, cluster)
        if not entry.constraints.queries:
            return entry.problem
        nodes = cluster.nodes
        counts = [nodes.counter_version(query) for query in entry.constraints.queries]
        return (entry.serial, nodes.topology_version, nodes.size, *counts)

    def concern(self, pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
        """Return a function that tells whether another pod is in the same namespace.

        Constraints count no other pods.
        """
        return lambda other: other.namespace == pod.namespace

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Add up counts over domains; skip pods without DoNotSchedule constraints."""
        entry = self._entries.of(pod, cluster)
        if entry.problem:
            return PreFilterResult(error(f"get constraints from pod: {entry.problem}"))
        if not entry.constraints.hard:
            return PreFilterResult(SKIP)
        participation = self._entries.participation(entry, pod, cluster.nodes)
        spreads = hard_spreads(entry.constraints, pod, cluster.nodes, participation)
        state.data[self.name] = spreads
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes without a topology label (unresolvable) and nodes that exceed a skew.

        The first constraint that a node violates determines its status.
        """
        verdicts = Verdicter(len(rows))
        base = rows_of_base(nodes, rows)
        undecided = np.ones(len(rows), dtype=np.bool_)
        spreads: list[HardSpread] = state.data[self.name]
        for spread in spreads:
            missing = undecided & ~spread.present[base]
            exceeded = spread.exceeded(nodes, rows) & undecided & ~missing
            verdicts.flag(missing, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_MISSING_LABEL)
            verdicts.flag(exceeded, Code.UNSCHEDULABLE, REASON)
            undecided &= ~(missing | exceeded)
        return verdicts.done()

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return for each constraint the skew that the pod would cause, and the allowed skew."""
        spreads: list[HardSpread] = state.data[self.name]
        hard = self._entries.of(pod, self._handle.cluster).constraints.hard
        base = rows_of_base(nodes, rows)
        found = []
        for constraint, spread in zip(hard, spreads, strict=True):
            allowed = np.full(len(rows), spread.max_skew)
            skew = np.where(spread.present[base], spread.skew(nodes, rows), allowed)
            found.append(Requirement(f"skew of {constraint.topology_key}", "", skew, allowed))
        return found

    def look_ahead(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> Lookahead | None:
        """Return a Lookahead for pods with DoNotSchedule constraints only.

        None for pods with ScheduleAnyway constraints, because each placed pod changes the scores.
        """
        entry = self._entries.of(pod, cluster)
        spreads: list[HardSpread] | None = state.data.get(self.name)
        if entry.constraints.soft or spreads is None:
            return None
        counted = self._entries.participation(entry, pod, cluster.nodes).hard_counted
        queries = entry.constraints.hard_queries
        return SpreadLookahead(
            [
                # Not ``self_match``: an empty selector matches the pod, but counts no pods.
                ConstraintLookahead(spread, domains, query.counts(pod))
                for spread, domains, query in zip(spreads, counted, queries, strict=True)
            ]
        )

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Compute counts and weights for the feasible rows; skip without soft constraints."""
        entry = self._entries.of(pod, cluster)
        constraints, nodes = entry.constraints, cluster.nodes
        if not constraints.soft:
            return SKIP
        participation = self._entries.participation(entry, pod, nodes)
        scored = participation.scored(feasible)
        spreads = soft_spreads(constraints, nodes, participation, scored)
        scoring = _Scoring(spreads, participation.ignored)
        if len(spreads) == 1 and spreads[0].sums is not None:
            scoring.table = _table(spreads[0])
            scoring.entries = participation.entries()
        state.data[self.score_key] = scoring
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return the rounded sum of count * ln(domains + 2) + maxSkew - 1, or IGNORED."""
        scoring: _Scoring = state.data[self.score_key]
        base = rows_of_base(nodes, rows)
        if scoring.table is not None and scoring.entries is not None:
            return scoring.table[scoring.entries[base]]
        total = np.zeros(len(rows), dtype=np.float64)
        for spread in scoring.spreads:
            spread.add_score(total, nodes, rows)
        scores = _rounded(total)
        scores[scoring.ignored[base]] = IGNORED
        return scores

    def score_groups(self, state: CycleState, pod: PodInfo) -> GroupScores | None:
        """Return the scores by domain, for a single constraint whose domains have several nodes."""
        scoring: _Scoring = state.data[self.score_key]
        if scoring.table is None or scoring.entries is None:
            return None
        return GroupScores(scoring.table, scoring.entries)

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Return 100 * (max + min - score) / max over nodes that have all keys; 100 if max is 0."""
        if len(scores) <= FEW_SCORES:
            return np.array(_normalized(scores.tolist()), dtype=np.int64)
        highest = int(scores.max(initial=IGNORED))
        least = int(scores.min(initial=highest))
        if least > IGNORED and 0 < highest < len(scores):
            # There are fewer distinct values than scores. Each is computed once and looked up:
            # dividing every score would take as long as all other steps together.
            values = np.arange(highest + 1)
            return (MAX_NODE_SCORE * (highest + least - values) // highest)[scores]
        ignored = scores == IGNORED
        if highest <= 0:
            return np.where(ignored, 0, MAX_NODE_SCORE).astype(np.int64)
        lowest = int(scores.min(initial=highest, where=~ignored))
        scaled = MAX_NODE_SCORE * (highest + lowest - scores) // highest
        return np.where(ignored, 0, scaled)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods of the namespace and for nodes (``hints``)."""
        cluster = self._handle.cluster
        hints = SpreadHints(lambda pod: self._entries.of(pod, cluster).constraints.hard)
        return hints.registrations()


def _rounded(scores: NDArray[np.float64]) -> Scores:
    """Round halves up, as Go's ``math.Round``; ``np.round`` rounds them to the even number."""
    whole = np.floor(scores)
    return (whole + (scores - whole >= 0.5)).astype(np.int64)


def _table(spread: SoftSpread) -> Scores:
    """Return the rounded scores by domain, then one for rows without the label, then IGNORED.

    ``Participation.entries`` has the indices.
    """
    by_domain = spread.by_domain()
    if len(by_domain) <= FEW_SCORES:
        few = [math.floor(score) + (score % 1.0 >= 0.5) for score in by_domain.tolist()]
        return np.array([*few, 0, IGNORED], dtype=np.int64)
    table = np.zeros(len(by_domain) + 2, dtype=np.int64)
    table[:-2] = _rounded(by_domain)
    table[-1] = IGNORED
    return table


def _normalized(scores: Sequence[int]) -> Sequence[int]:
    """Return the result of ``PodTopologySpread.normalize`` for a few scores, one by one."""
    counted = [score for score in scores if score != IGNORED]
    highest, lowest = max(counted, default=0), min(counted, default=0)
    if highest <= 0:
        return [0 if score == IGNORED else MAX_NODE_SCORE for score in scores]
    return [
        0 if score == IGNORED else MAX_NODE_SCORE * (highest + lowest - score) // highest
        for score in scores
    ]
