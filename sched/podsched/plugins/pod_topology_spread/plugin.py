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
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from podsched.api.selectors import SelectorError
from podsched.config.plugin_args import DefaultingType, PodTopologySpreadArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
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
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, SUCCESS, Code, Status, error
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.plugins.pod_topology_spread.constraints import (
    Constraint,
    Constraints,
    Defaulting,
    own_constraints,
)
from podsched.plugins.pod_topology_spread.counts import (
    HardSpread,
    Participation,
    SoftSpread,
    hard_spreads,
    soft_spreads,
)
from podsched.plugins.pod_topology_spread.lookahead import ConstraintLookahead, SpreadLookahead
from podsched.plugins.pods import node_or_nominated
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.topology_domains import TopologyDomains
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) didn't match pod topology spread constraints"
REASON_MISSING_LABEL = REASON + " (missing required label)"

#: Up to this many scores, such as those of a few zones, are normalised one by one: a call of NumPy
#: takes 1 µs.
FEW_SCORES: Final = 16
#: The raw score of nodes that lack a topology key; they get 0 and do not count in normalisation.
IGNORED: Final = -1


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Entry:
    """The data that all classes with equal projections (``_projection``) share."""

    constraints: Constraints
    #: Unique among all entries.
    serial: int
    #: Why the pod's constraints could not be compiled; "" if they could.
    problem: str = ""
    participation: Participation | None = None
    topology: Hashable = None


@dataclass(slots=True)
class _OfClass:
    """The entry of a class.

    ``own``: the pods' specs have constraints. Otherwise the defaults apply, and the entry is valid
    at this ``version`` of them.
    """

    entry: _Entry
    own: bool
    version: Hashable


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
        remedies=frozenset({Remedy.PODS_ELSEWHERE}),
    )

    #: The key of Score's entry in CycleState (``_Scoring``). The key of Filter's, a list of
    #: ``HardSpread``, is the plugin's name.
    score_key: ClassVar[str] = "PodTopologySpread/score"

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        listed = args.defaulting_type == DefaultingType.LIST
        self._defaulting = Defaulting(args.default_constraints, False) if listed else Defaulting()
        self._handle = handle
        self._domains = TopologyDomains()
        self._classes: WeakKeyDictionary[PodClass, _OfClass] = WeakKeyDictionary()
        self._entries: WeakValueDictionary[Hashable, _Entry] = WeakValueDictionary()
        self._serial = 0
        #: The entry of pods without constraints, which most pods are.
        self._without = _Entry(Constraints(""), 0)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return a number that stands for the parts of the pod in ``_projection``."""
        return self._entry(pod, cluster).serial

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of the constraints, of labels and taints, and of the counts."""
        entry = self._entry(pod, cluster)
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
        entry = self._entry(pod, cluster)
        if entry.problem:
            return PreFilterResult(error(f"get constraints from pod: {entry.problem}"))
        if not entry.constraints.hard:
            return PreFilterResult(SKIP)
        participation = self._participation(entry, pod, cluster.nodes)
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
        hard = self._entry(pod, self._handle.cluster).constraints.hard
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
        entry = self._entry(pod, cluster)
        spreads: list[HardSpread] | None = state.data.get(self.name)
        if entry.constraints.soft or spreads is None:
            return None
        counted = self._participation(entry, pod, cluster.nodes).hard_counted
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
        entry = self._entry(pod, cluster)
        constraints, nodes = entry.constraints, cluster.nodes
        if not constraints.soft:
            return SKIP
        participation = self._participation(entry, pod, nodes)
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
        """Register for pods of the namespace and for nodes."""
        pod = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint.on(
                Resource.POD,
                pod | ActionType.DELETE,
                self._after_pod_change,
                index=lambda: KeyedIndex(_namespace, _namespaces),
            ),
            ClusterEventWithHint.on(
                Resource.NODE, node | ActionType.DELETE, self._after_node_change
            ),
        ]

    # ------------------------------------------------------------------ constraints of a class

    def _entry(self, pod: PodInfo, cluster: ClusterView) -> _Entry:
        known = self._classes.get(pod.cls)
        if known is not None and (known.own or known.version == self._defaulting.versions(cluster)):
            return known.entry
        return self._learn(pod, cluster)

    def _learn(self, pod: PodInfo, cluster: ClusterView) -> _Entry:
        """Find the constraints of a class, and the entry of all classes with equal ones."""
        own, problem = bool(pod.cls.spec.topology_spread_constraints), ""
        version = () if own else self._defaulting.versions(cluster)
        try:
            constraints = own_constraints(pod) if own else self._defaulting.of(pod, cluster)
        except SelectorError as failure:
            constraints, problem = Constraints(pod.namespace), str(failure)
        entry = self._without
        if constraints.queries or problem:
            projection = _projection(pod, constraints, problem)
            shared = self._entries.get(projection)
            if shared is None:
                self._serial += 1
                shared = self._entries[projection] = _Entry(constraints, self._serial, problem)
            entry = shared
        self._classes[pod.cls] = _OfClass(entry, own, version)
        return entry

    def _participation(self, entry: _Entry, pod: PodInfo, nodes: NodeColumns) -> Participation:
        """Return the rows that take part in the entry's constraints, for the current topology."""
        topology = (id(nodes.base), nodes.topology_version, nodes.size)
        if entry.participation is None or entry.topology != topology:
            entry.participation = Participation(entry.constraints, pod, nodes, self._domains)
            entry.topology = topology
        return entry.participation

    # ------------------------------------------------------------------ hints

    def _after_pod_change(
        self, pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None
    ) -> QueueingHint:
        if not all(_is_involved(changed, pod) for changed in (old, new) if changed is not None):
            return QueueingHint.SKIP
        hard = self._entry(pod, self._handle.cluster).constraints.hard
        if old is not None and new is not None:
            return QueueingHint.of(_update_helps(hard, pod, old, new))
        changed = old if new is None else new
        labels = None if changed is None else changed.metadata.labels
        return QueueingHint.of(labels is not None and any(c.selector.matches(labels) for c in hard))

    def _after_node_change(
        self, pod: PodInfo, old: v1.Node | None, new: v1.Node | None
    ) -> QueueingHint:
        hard = self._entry(pod, self._handle.cluster).constraints.hard
        keys = [constraint.topology_key for constraint in hard]
        before, after = _has_all(old, keys), _has_all(new, keys)
        if old is None or new is None:
            return QueueingHint.of(before or after)
        if before != after:
            return QueueingHint.QUEUE
        labels, others = old.metadata.labels, new.metadata.labels
        moved = any(labels.get(key, "") != others.get(key, "") for key in keys)
        return QueueingHint.of(after and (moved or old.spec.taints != new.spec.taints))


def _projection(pod: PodInfo, constraints: Constraints, problem: str) -> Hashable:
    """Return everything that the plugin reads of a pod that has constraints.

    Of the pod's labels, it reads only whether the selectors match them. Node affinity, node
    selector and tolerations decide which nodes take part (node inclusion policies).
    """
    cls = pod.cls
    matches = tuple(
        constraint.selector.matches(cls.labels)
        for constraint in (*constraints.hard, *constraints.soft)
    )
    affinity = cls.spec.affinity.node_affinity.SerializeToString()
    selector = frozenset(cls.spec.node_selector.items())
    tolerations = tuple(t.SerializeToString() for t in cls.spec.tolerations)
    return constraints, matches, affinity, selector, tolerations, problem


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


def _namespace(pod: PodInfo) -> tuple[str]:
    return (pod.namespace,)


def _namespaces(old: v1.Pod | None, new: v1.Pod | None) -> list[str]:
    return [changed.metadata.namespace for changed in (old, new) if changed is not None]


def _is_involved(changed: v1.Pod, pod: PodInfo) -> bool:
    """Return whether it is the waiting pod, or a pod of its namespace with a (nominated) node."""
    if changed.metadata.uid == pod.uid:
        return True
    return bool(node_or_nominated(changed)) and changed.metadata.namespace == pod.namespace


def _update_helps(hard: Sequence[Constraint], pod: PodInfo, old: v1.Pod, new: v1.Pod) -> bool:
    own = new.metadata.uid == pod.uid
    if own and any(c.honor_taints for c in hard) and old.spec.tolerations != new.spec.tolerations:
        return True
    before, after = old.metadata.labels, new.metadata.labels
    if before == after:
        return False
    return any(c.selector.matches(before) != c.selector.matches(after) for c in hard)


def _has_all(node: v1.Node | None, keys: Sequence[str]) -> bool:
    return node is not None and all(key in node.metadata.labels for key in keys)
