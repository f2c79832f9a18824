"""Add up the pods that a spread constraint counts in each topology domain, and compute the skew.

Rules: ``filtering.go`` and ``scoring.go`` of kube-scheduler v1.36
(``framework/plugins/podtopologyspread``). For a constraint over zones, with maxSkew 1:

    row            0     1     2     3     4
    zone           a     b     a     -     b
    ids            0     1     0     2     1      the domain; 2, the number of domains: no label
    pods           1     0     1     5     1      matching pods on the row, counted by the cache
    counts         2     1     2     .     1      matching pods in the row's domain
    minimum 1 (of b), second 2 (of the other domains): one more pod in a exceeds maxSkew

All arrays have one cell per row of the live columns, so verdicts can be computed for any rows. On a
fork, the pods added to or removed from a row change only the count of that row's domain. So the
minimum is that count or the least count of the other domains. That least count is ``second`` for
the domain with the lowest count, and ``minimum`` for all others, so these two are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsched.api.node_labels import HOSTNAME
from podsched.framework.nodes import Bools, Int64s, JournaledColumns, NodeColumns
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.plugins.node_affinity import required_affinity
from podsched.plugins.pod_topology_spread.constraints import Constraint, Constraints, MatchingPods
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.matching import untolerated
from podsched.plugins.rows.topology_domains import Domains, TopologyDomains

NO_ROWS: Final[Rows] = np.empty(0, dtype=np.intp)
#: The least count of a domain if there are no domains (``math.MaxInt32`` in kube-scheduler).
NO_MINIMUM: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class HardSpread:
    """A DoNotSchedule constraint and its counts. Arrays have shape ``(size,)``.

    ``present``: whether the row has the topology key. ``taking_part``: whether its pods count; a
    domain without such rows does not exist for the constraint. ``counts``: the count of the row's
    domain ``ids``. ``minimum``: the least count, that of domain ``lowest``; ``second``: the least
    count of the other domains. ``enough``: whether there are at least minDomains domains; if not,
    the skew is computed with a minimum of 0. ``self_match``: 1 if the selector matches the pod to
    schedule, else 0. ``fork_query``: counts the pods that a fork adds or removes.
    """

    max_skew: int
    self_match: int
    fork_query: MatchingPods
    present: Bools
    taking_part: Bools
    counts: Int64s
    ids: NDArray[np.intp]
    lowest: int
    minimum: int
    second: int
    enough: bool

    def skew(self, nodes: NodeColumns, rows: Rows) -> Int64s:
        """Return the skew of each row's domain with the pod on the row, also for rows of a fork."""
        on_fork = nodes.base is not nodes
        base = rows_of_base(nodes, rows)
        counts = self.counts[base]
        delta = nodes.own_delta(self.fork_query) if on_fork else None
        if delta is not None:
            counts = counts + delta[rows] * self.taking_part[base]
        if not self.enough:
            return counts + self.self_match
        if not on_fork:
            return counts + self.self_match - self.minimum
        others = np.where(self.ids[base] == self.lowest, self.second, self.minimum)
        # If no row of the domain takes part, its count is 0, and 0 + self_match - 0 is at most
        # maxSkew, which is at least 1.
        return counts + self.self_match - np.minimum(others, counts)

    def exceeded(self, nodes: NodeColumns, rows: Rows) -> Bools:
        """Return, for each row, whether the pod on it would exceed maxSkew."""
        if nodes.base is not nodes:
            return np.greater(self.skew(nodes, rows), self.max_skew)
        minimum = self.minimum if self.enough else 0
        return self.counts[rows] > self.max_skew + minimum - self.self_match


class SoftSpread(NamedTuple):
    """A ScheduleAnyway constraint and its counts over rows, of shape ``(size,)``.

    ``sums`` are the counts by domain, and ``ids`` the rows' domains. Both are None for the topology
    key kubernetes.io/hostname: then each row's count is that of ``query``, read when it is scored.
    ``weight``: see ``topologyNormalizingWeight`` of kube-scheduler.
    """

    max_skew: int
    weight: float
    present: Bools
    query: MatchingPods
    sums: Int64s | None
    ids: NDArray[np.intp] | None

    def add_score(self, total: NDArray[np.float64], nodes: NodeColumns, rows: Rows) -> None:
        """Add count * weight + maxSkew - 1 to the rows that have the label (``scoreForCount``)."""
        base = rows_of_base(nodes, rows)
        if self.sums is None or self.ids is None:
            counts = nodes.counter(self.query)[rows]
        else:
            counts = self.sums[self.ids[base]]
        present = self.present[base]
        total += np.where(present, self._of(counts), 0.0)

    def by_domain(self) -> NDArray[np.float64]:
        """Return the score of the rows of each domain; ``sums`` must not be None."""
        assert self.sums is not None
        return self._of(self.sums)

    def _of(self, counts: Int64s) -> NDArray[np.float64]:
        given: NDArray[np.float64] = np.add(counts * self.weight, float(self.max_skew - 1))
        return given


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """The feasible rows, and the part of them that soft constraints score (``rows``).

    ``domains``: for each constraint, the number of domains that ``rows`` are in.
    """

    feasible: Rows
    rows: Rows
    domains: tuple[int, ...]


class Participation:
    """The rows and domains that take part in the constraints of a pod class.

    They depend on the labels and taints of nodes and on the class, not on other pods. So they are
    computed once and kept while ``topology_version`` stays the same.
    """

    def __init__(
        self, constraints: Constraints, pod: PodInfo, nodes: NodeColumns, domains: TopologyDomains
    ) -> None:
        rows = np.flatnonzero(nodes.alive)
        self.hard_domains = [domains.of(nodes, c.topology_key) for c in constraints.hard]
        self.soft_domains = [domains.of(nodes, c.topology_key) for c in constraints.soft]
        self.soft_complete = _complete(self.soft_domains, nodes.alive)
        # As in kube-scheduler, a node without one of the keys counts for none of the constraints.
        self.hard = _taking_part(
            constraints.hard, pod, nodes, rows, _complete(self.hard_domains, nodes.alive)
        )
        required = self.soft_complete if constraints.require_all else nodes.alive
        soft = _taking_part(constraints.soft, pod, nodes, rows, required)
        #: By soft constraint; None if all nodes take part, as they nearly always do. Then the
        #: cache's sums can be used.
        self._soft = [None if np.array_equal(part, nodes.alive) else part for part in soft]
        if not constraints.require_all:
            # Such nodes are scored, too, and kube-scheduler reads a missing label as "".
            self.soft_domains = [domain.absent_as_empty() for domain in self.soft_domains]
        self.hard_counted = [
            domain.having(part) for domain, part in zip(self.hard_domains, self.hard, strict=True)
        ]
        #: The rows that soft constraints do not score.
        self.ignored = ~required
        self._scored = ScoredRows(NO_ROWS, NO_ROWS, ())
        self._entries: NDArray[np.intp] | None = None
        self._all_scored = np.array_equal(self.soft_complete, nodes.alive)

    def soft_counts(self, index: int, counts: Int64s) -> Int64s:
        """Return the counts of the rows that take part in a soft constraint, 0 for the others."""
        taking_part = self._soft[index]
        return counts if taking_part is None else counts * taking_part

    def soft_sums(self, index: int, nodes: JournaledColumns, query: MatchingPods) -> Int64s:
        """Return the sums over domains of the rows that take part in a soft constraint."""
        domains = self.soft_domains[index]
        if self._soft[index] is None:
            return nodes.counter_sums(query, domains.ids, domains.count + 1)
        return domains.sums(self.soft_counts(index, nodes.counter(query)))

    def scored(self, feasible: Rows) -> ScoredRows:
        """Return which of the feasible rows are scored; the last result is kept."""
        if self._scored.feasible is not feasible:
            rows = feasible[~self.ignored[feasible]]
            domains = tuple(_number_of_domains(domain, rows) for domain in self.soft_domains)
            self._scored = ScoredRows(feasible, rows, domains)
        return self._scored

    def entries(self) -> NDArray[np.intp]:
        """Return the index of each row's score in the table of a single soft constraint.

        The table has an entry per domain, an unused one (``sums`` has a cell for rows without a
        domain), one for rows without the label, and one for rows that are not scored. If every node
        has the label, the result is the array ``ids`` of the domains, which all pods share that
        spread over the key.
        """
        domains = self.soft_domains[0]
        if self._all_scored:
            return domains.ids
        if self._entries is None:
            entries = np.where(domains.present, domains.ids, domains.count + 1)
            self._entries = np.where(self.ignored, domains.count + 2, entries)
        return self._entries


def _complete(domains: list[Domains], alive: Bools) -> Bools:
    """Return the rows that have the labels of all constraints."""
    result = alive.copy()
    for domain in domains:
        result &= domain.present
    return result


def _taking_part(
    constraints: tuple[Constraint, ...],
    pod: PodInfo,
    nodes: NodeColumns,
    rows: Rows,
    required: Bools,
) -> list[Bools]:
    """Return for each constraint the rows whose pods count, by its node inclusion policies."""
    with_affinity = with_taints = required
    if any(constraint.honor_affinity for constraint in constraints):
        with_affinity = required & _honored_affinity(pod, nodes, rows)
    if any(constraint.honor_taints for constraint in constraints):
        with_taints = required & _honored_taints(pod, nodes, rows)
    return [
        (with_affinity if constraint.honor_affinity else required)
        & (with_taints if constraint.honor_taints else required)
        for constraint in constraints
    ]


def _honored_affinity(pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Bools:
    result = np.zeros(nodes.size, dtype=np.bool_)
    result[rows] = required_affinity(pod).match(nodes, rows)
    return result


def _honored_taints(pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Bools:
    result = np.zeros(nodes.size, dtype=np.bool_)
    result[rows] = ~untolerated(nodes, rows, pod.cls.spec.tolerations)
    return result


def hard_spreads(
    constraints: Constraints, pod: PodInfo, nodes: NodeColumns, participation: Participation
) -> list[HardSpread]:
    """Return the DoNotSchedule constraints with their counts."""
    result = []
    for index, constraint in enumerate(constraints.hard):
        domains, taking_part = participation.hard_domains[index], participation.hard[index]
        counted = participation.hard_counted[index]
        sums = domains.sums(nodes.counter(constraints.hard_queries[index]) * taking_part)
        number = int(np.count_nonzero(counted))
        lowest, minimum, second = _two_lowest(sums, counted)
        result.append(
            HardSpread(
                max_skew=constraint.max_skew,
                self_match=int(constraint.selector.matches(pod.cls.labels)),
                fork_query=MatchingPods(pod.namespace, constraint.selector, on_fork=True),
                present=domains.present,
                taking_part=taking_part,
                counts=sums[domains.ids],
                ids=domains.ids,
                lowest=lowest,
                minimum=minimum,
                second=second,
                enough=number >= constraint.min_domains,
            )
        )
    return result


def _two_lowest(sums: Int64s, counted: Bools) -> tuple[int, int, int]:
    """Return the counted domain with the least sum, that sum, and the least of the others."""
    only = np.where(counted, sums, NO_MINIMUM)
    lowest = int(only.argmin())
    minimum = int(only[lowest])
    only[lowest] = NO_MINIMUM
    return lowest, minimum, int(only.min())


def soft_spreads(
    constraints: Constraints,
    nodes: JournaledColumns,
    participation: Participation,
    scored: ScoredRows,
) -> list[SoftSpread]:
    """Return the ScheduleAnyway constraints with their counts, and weights for ``scored``."""
    result = []
    for index, constraint in enumerate(constraints.soft):
        domains, query = participation.soft_domains[index], constraints.soft_queries[index]
        sums = ids = None
        if constraint.topology_key == HOSTNAME:
            size = len(scored.rows)
        else:
            size = scored.domains[index]
            sums = participation.soft_sums(index, nodes, query)
            ids = domains.ids
        result.append(
            SoftSpread(constraint.max_skew, _log_weight(size), domains.present, query, sums, ids)
        )
    return result


def _number_of_domains(domains: Domains, rows: Rows) -> int:
    """Return the number of domains of the rows; rows without the label count as one more domain."""
    seen = np.zeros(domains.count + 1, dtype=np.bool_)
    seen[domains.ids[rows]] = True
    return int(np.count_nonzero(seen))


@lru_cache(1024)
def _log_weight(size: int) -> float:
    """Return the weight of a constraint over ``size`` domains (``topologyNormalizingWeight``)."""
    return float(np.log(size + 2))
