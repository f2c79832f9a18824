"""InterPodAffinity: places pods near or away from other pods, by terms of the pod and of others.

Rules: kube-scheduler v1.36 ``framework/plugins/interpodaffinity`` (``filtering.go``,
``scoring.go``). The cache counts, for each row, the pods that a term matches (``PodQuery``). So a
decision looks at no single pod: it adds these counts up over the domains of the terms' topology
keys. Pods without terms that no other pod's term matches are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from podsched.config.plugin_args import InterPodAffinityArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.lookahead import Lookahead
from podsched.framework.nodes import (
    ABSENT,
    Bools,
    ClusterView,
    Int64s,
    JournaledColumns,
    NodeColumns,
    PodQuery,
)
from podsched.framework.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    Handle,
    PreFilterResult,
    Remedy,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.plugins.inter_pod_affinity.hints import AffinityHints
from podsched.plugins.inter_pod_affinity.relations import Relations, RelationsIndex
from podsched.plugins.inter_pod_affinity.terms import (
    PLUGIN,
    REPELLING,
    AffinityTerm,
    AllTerms,
    RepelledBy,
    SomeTerms,
    TermTarget,
    concern,
    terms_of,
)
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.topology_domains import TopologyDomains

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

_NO_AFFINITY: Final = 1
_ANTI_AFFINITY: Final = 2
_EXISTING_ANTI_AFFINITY: Final = 3


@dataclass(frozen=True, slots=True)
class _Counted:
    """The count of each row's domain of a topology key, and whether the row has the key.

    Both arrays have shape ``(size,)``.
    """

    key: str
    present: Bools
    counts: Int64s


@dataclass(frozen=True, slots=True)
class _Affinity:
    """The pods that all of the pod's required affinity terms match.

    ``anywhere``: their number on nodes with a topology key, added up over the keys. ``self_match``:
    whether the pod matches its own terms; then it may be the first of its kind.
    """

    query: AllTerms
    domains: tuple[_Counted, ...]
    anywhere: int
    self_match: bool


@dataclass(frozen=True, slots=True)
class _AntiAffinity:
    query: SomeTerms
    domain: _Counted


@dataclass(slots=True)
class _Filtering:
    """The results of PreFilter.

    ``verdicts``, of shape ``(size,)``, has the violated rule of each live row. For rows of a fork
    it is computed again.
    """

    target: TermTarget
    affinity: _Affinity | None
    anti_affinity: tuple[_AntiAffinity, ...]
    existing: tuple[_Counted, ...]
    verdicts: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, dtype=np.int8))


class _OwnRowOnly:
    """A Lookahead for pods that affect only the row on which they are placed."""

    covers_own_row: bool = False

    def place(self, row: int) -> bool:
        return True


class InterPodAffinity:
    """Filter looks at required terms of the pod and of others, Score also at preferred ones."""

    name: ClassVar[str] = PLUGIN
    traits: ClassVar[Traits] = Traits(
        reads_pods=False,
        depends_on_feasible=False,
        normalizes_by_extremes=True,
        reads_requests=False,
        reads_volumes=False,
        projects_placed_pods=False,
        remedies=frozenset({Remedy.PODS_ELSEWHERE}),
    )

    #: The key of Score's entry in CycleState: each row's sum of weights, shape ``(size,)``. The key
    #: of Filter's is the plugin's name.
    score_key: ClassVar[str] = f"{PLUGIN}/score"

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._index = RelationsIndex(
            args.hard_pod_affinity_weight,
            ignore_preferred=args.ignore_preferred_terms_of_existing_pods,
        )
        self._domains = TopologyDomains()
        self._hints = AffinityHints(handle, self._index)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return a number that stands for the pod's terms and the labels that terms select by."""
        return self._index.projection(pod, cluster)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of the terms that concern the class, their counts, and labels."""
        relations, serial = self._index.of(pod, cluster)
        if not relations.queries:
            return ()
        nodes = cluster.nodes
        counts = [nodes.counter_version(query) for query in relations.queries]
        return (serial, nodes.topology_version, nodes.size, *counts)

    def concern(self, pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
        """Return a function that tells whether a required term of one pod matches the other."""
        return concern(pod, cluster)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Add up the counts over domains; skip if no required term concerns the pod."""
        problem = terms_of(pod.cls).problem
        if problem:
            return PreFilterResult(unresolvable(f"parsing pod: {problem}"))
        relations, _ = self._index.of(pod, cluster)
        nodes = cluster.nodes
        existing = tuple(
            counted
            for key, queries in relations.repelled
            if (counted := _counted(self._domains, nodes, key, queries)).counts.any()
        )
        if not existing and not terms_of(pod.cls).required:
            return PreFilterResult(SKIP)
        filtering = _Filtering(
            relations.target,
            _affinity(self._domains, relations, pod, nodes),
            tuple(
                _AntiAffinity(query, _counted(self._domains, nodes, key, [query]))
                for key, query in relations.anti_affinity
            ),
            existing,
        )
        rows = np.arange(nodes.size, dtype=np.intp)
        filtering.verdicts = _verdicts(filtering, nodes, rows)
        state.data[self.name] = filtering
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject rows that violate a required term, each for one reason.

        The first violated rule counts, in the order of kube-scheduler's Filter: the pod's affinity
        (unresolvable), the pod's anti-affinity, the anti-affinity of other pods.
        """
        filtering: _Filtering = state.data[self.name]
        is_fork = nodes.base is not nodes
        found = _verdicts(filtering, nodes, rows) if is_fork else filtering.verdicts[rows]
        verdicts = Verdicter(len(rows))
        if found.any():
            unresolvably = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            verdicts.flag(found == _NO_AFFINITY, unresolvably, REASON_AFFINITY)
            verdicts.flag(found == _ANTI_AFFINITY, Code.UNSCHEDULABLE, REASON_ANTI_AFFINITY)
            existing = found == _EXISTING_ANTI_AFFINITY
            verdicts.flag(existing, Code.UNSCHEDULABLE, REASON_EXISTING_ANTI_AFFINITY)
        return verdicts.done()

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return, for each topology key, the pods that must or must not be in a node's domain."""
        filtering: _Filtering = state.data[self.name]
        base = rows_of_base(nodes, rows)
        found = []
        if (affinity := filtering.affinity) is not None:
            wanted = " and ".join(str(term) for term in affinity.query.terms)
            first = affinity.self_match and not affinity.anywhere
            for domain in affinity.domains:
                present = domain.present[base]
                counts = _with_own_changes(domain, affinity.query, nodes, rows, base)
                near = ~present | (counts > 0) | first
                found.append(Requirement.met(f"label {domain.key}", present))
                found.append(Requirement.met(f"{wanted} in its {domain.key}", near))
        for anti in filtering.anti_affinity:
            counts = _with_own_changes(anti.domain, anti.query, nodes, rows, base)
            unwanted = " or ".join(str(term) for _, term in anti.query.terms)
            found.append(Requirement.met(f"{anti.domain.key} without {unwanted}", counts == 0))
        for existing in filtering.existing:
            query = RepelledBy(filtering.target, existing.key)
            counts = _with_own_changes(existing, query, nodes, rows, base)
            what = f"{existing.key} without a pod whose anti-affinity matches this one"
            found.append(Requirement.met(what, counts == 0))
        return found

    def look_ahead(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> Lookahead | None:
        """Return a Lookahead if one more such pod changes no verdict and no score of other rows.

        This is so if

        * anti-affinity has topology keys whose domains are single nodes;
        * affinity is met by pods that exist: rows that fit have such pods in their domains already,
          and one more makes no difference;
        * terms that score have topology keys of which all nodes are in one domain, so that the
          scores of all nodes rise equally.
        """
        relations, _ = self._index.of(pod, cluster)
        nodes = cluster.nodes
        repelling = {key for key, _ in (*relations.anti_affinity, *relations.repelled)}
        if not all(self._domains.of(nodes, key).single for key in repelling):
            return None
        scoring = {key for key, _ in (*relations.preferred, *relations.weighted)}
        # Required affinity scores, too, once a pod that has it is placed (hardPodAffinityWeight).
        scoring |= {term.topology_key for term in terms_of(pod.cls).required_affinity}
        if not all(self._domains.of(nodes, key).covers(nodes.alive) for key in scoring):
            return None
        if relations.affinity is not None:
            filtering: _Filtering | None = state.data.get(self.name)
            if filtering is None or filtering.affinity is None or not filtering.affinity.anywhere:
                return None
        return _OwnRowOnly()

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Add up the weights over domains; skip if all sums are 0."""
        problem = terms_of(pod.cls).problem
        if problem:
            return error(f"failed to parse pod: {problem}")
        relations, _ = self._index.of(pod, cluster)
        if not relations.scores:
            return SKIP
        scores = _sums_of_weights(self._domains, relations, cluster.nodes)
        if not scores.any():
            return SKIP
        state.data[self.score_key] = scores
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return each row's sum of weights.

        A term of the pod to place adds its weight for each pod that it matches in the row's domain
        of its topology key. A term of a placed pod in that domain adds its weight if it matches the
        pod to place.
        """
        scores: Int64s = state.data[self.score_key]
        return scores[rows_of_base(nodes, rows)]

    def score_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Scores:
        """Return the scores of all rows."""
        scores: Int64s = state.data[self.score_key]
        return scores.copy()

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map the lowest sum to 0 and the highest to 100; all to 0 if they are equal."""
        if not len(scores):
            return scores
        lowest, highest = int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))
        if lowest == highest:
            return np.zeros_like(scores)
        # The same float64 operations as kube-scheduler: 29 of 100 becomes 28, not 29.
        share = (scores - lowest).astype(np.float64) / float(highest - lowest)
        return (float(MAX_NODE_SCORE) * share).astype(np.int64)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods and nodes that are added, relabelled or deleted."""
        pod = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.DELETE
        return [
            ClusterEventWithHint.on(Resource.POD, pod, self._hints.after_pod_change),
            ClusterEventWithHint.on(Resource.NODE, node, self._hints.after_node_change),
        ]


def _affinity(
    domains: TopologyDomains, relations: Relations, pod: PodInfo, nodes: NodeColumns
) -> _Affinity | None:
    query = relations.affinity
    if query is None:
        return None
    counted = tuple(_counted(domains, nodes, key, [query]) for key in relations.affinity_keys)
    counts = nodes.counter(query)
    anywhere = sum(int(counts[domain.present].sum()) for domain in counted)
    return _Affinity(query, counted, anywhere, bool(query.counts(pod)))


def _counted(
    domains: TopologyDomains, nodes: NodeColumns, key: str, queries: Sequence[PodQuery]
) -> _Counted:
    of_key = domains.of(nodes, key)
    counts = nodes.counter(queries[0])
    if len(queries) > 1:
        counts = np.sum([nodes.counter(query) for query in queries], axis=0)
    return _Counted(key, of_key.present, of_key.spread(counts))


def _sums_of_weights(domains: TopologyDomains, relations: Relations, nodes: NodeColumns) -> Int64s:
    """Return, for each row, the sum of weights over the domains of all scoring terms."""
    by_key: dict[str, Int64s] = {}

    def add(key: str, counts: Int64s) -> None:
        by_key[key] = by_key[key] + counts if key in by_key else counts

    for key, query in relations.preferred:
        add(key, nodes.counter(query))
    for key, weighted in relations.weighted:
        for weight, other in weighted:
            add(key, nodes.counter(other) * weight)
    # ``spread`` makes new arrays, which may be written to; those of counters may not.
    total, *others = [domains.of(nodes, k).spread(c) for k, c in by_key.items()]
    for more in others:
        total += more
    return total


def _verdicts(filtering: _Filtering, nodes: NodeColumns, rows: Rows) -> NDArray[np.int8]:
    """Return the rule that each row violates (one of the constants), 0 for none.

    Rows of a fork include the pods added to or removed from the row. Later rules overwrite earlier
    ones, so they come in the reverse of kube-scheduler's order.
    """
    base = rows_of_base(nodes, rows)
    result = np.zeros(len(rows), dtype=np.int8)
    result[_repelled(filtering, nodes, rows, base)] = _EXISTING_ANTI_AFFINITY
    for anti in filtering.anti_affinity:
        counts = _with_own_changes(anti.domain, anti.query, nodes, rows, base)
        result[counts > 0] = _ANTI_AFFINITY
    if filtering.affinity is not None:
        result[~_near(filtering.affinity, nodes, rows, base)] = _NO_AFFINITY
    return result


def _with_own_changes(
    counted: _Counted, query: PodQuery, nodes: NodeColumns, rows: Rows, base: Rows
) -> Int64s:
    """Return the counts of the rows' domains, with the pods added or removed on a row of a fork."""
    counts = counted.counts[base]
    delta = nodes.own_delta(query)
    return counts if delta is None else counts + delta[rows] * counted.present[base]


def _near(affinity: _Affinity, nodes: NodeColumns, rows: Rows, base: Rows) -> Bools:
    """Return for each row whether it meets the pod's required affinity.

    A row must have all topology keys, and matching pods in all of its domains. A pod that matches
    its own terms needs no such pods if there are none anywhere: it may be the first of its kind.
    """
    has_keys = np.ones(len(rows), dtype=np.bool_)
    has_pods = np.ones(len(rows), dtype=np.bool_)
    anywhere: Int64s = np.full(len(rows), affinity.anywhere, dtype=np.int64)
    delta = nodes.own_delta(affinity.query)
    for domain in affinity.domains:
        present, counts = domain.present[base], domain.counts[base]
        if delta is not None:
            changed = delta[rows] * present
            counts = counts + changed
            anywhere += changed
        has_keys &= present
        has_pods &= counts > 0
    if affinity.self_match:
        has_pods |= anywhere == 0
    return has_keys & has_pods


def _repelled(filtering: _Filtering, nodes: NodeColumns, rows: Rows, base: Rows) -> Bools:
    """Return for each row whether another pod's required anti-affinity rejects the pod there."""
    result = np.zeros(len(rows), dtype=np.bool_)
    if nodes.base is nodes:
        for counted in filtering.existing:
            result |= counted.counts[base] > 0
        return result
    for counted in filtering.existing:
        query = RepelledBy(filtering.target, counted.key)
        result |= _with_own_changes(counted, query, nodes, rows, base) > 0
    for key in _new_keys(filtering, nodes):
        delta = nodes.own_delta(RepelledBy(filtering.target, key))
        if delta is not None:
            result |= (delta[rows] > 0) & (nodes.label(key)[rows] != ABSENT)
    return result


def _new_keys(filtering: _Filtering, nodes: NodeColumns) -> set[str]:
    """Return the topology keys of anti-affinity terms that only pods added on the fork have."""
    terms: Mapping[Hashable, PodQuery] = nodes.terms_in_cluster(REPELLING)
    # Most forks add no term, and then both numbers are equal. PreFilter cannot compute the keys: it
    # does not run again when terms change that do not concern the pod, so they might be outdated.
    if len(terms) == len(nodes.base.terms_in_cluster(REPELLING)):
        return set()
    keys = {cast(AffinityTerm, term).topology_key for term in terms}
    return keys - {counted.key for counted in filtering.existing}
