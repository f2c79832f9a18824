"""Decide pods that differ only in what fast plugins read, without an evaluation for each pod.

If every pod has its own requests (from a recommender, say), only the resource plugins tell the pods
apart, and these are fast over whole columns. A full evaluation for each pod takes five times as
long. So the results of the *other* plugins are taken from one evaluation, and only the *varying*
plugins (``ProfileRuntime.varying``) run for each *variant*:

    row                     0     1     2     3
    others:  fits           yes   yes   no    yes    ) from the evaluation, refreshed
             total          150   150   .     150    ) if others read more than Nodes
    varying plugins: fits   yes   no    yes   yes    ) for the pod: ``filter_all``, ``score_all``
             total          120   80    90    121    )
    best row: 3

Guarantee: ``select`` returns the row that an evaluation of the pod would give (property test), or
None if that is not certain; then the pod is evaluated normally. It is certain if

* the inputs of the other plugins are those of the evaluation, no Node has changed since, and no pod
  is nominated; and
* either the same rows are feasible as for the evaluation's pod, or the other plugins' scores are
  final or equal on all rows (so they do not depend on which rows are feasible) and their PreScore
  has nothing to do for the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.score_column import ScoreColumn
from podsched.decide.accelerators.score_details import best_rows, put_together
from podsched.decide.accelerators.totals import NO_TOTAL
from podsched.decide.decision import ScoreDetails
from podsched.decide.evaluation.filtering import filter_all
from podsched.decide.evaluation.pre_filtering import pre_filter_one
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.scoring import SCORE_WORDING, in_range, pre_score_one, score_all
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.lookahead import JointChoice, JointChoicePlugin
from podsched.framework.nodes import Bools, ClusterView
from podsched.framework.plugin import FIXED_INPUTS, CycleState
from podsched.framework.pods import PodInfo, PodShape
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Scores

#: Max shapes for which a pod is remembered.
_MOST_SHAPES: Final = 64


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """The row for a pod, and the CycleState that the plugins wrote.

    ``total``: the row's total without scores that are equal on all rows; ``feasible``: the number
    of feasible rows; ``totals``: the totals of all rows, if requested.
    """

    row: int
    state: CycleState
    total: int
    feasible: int
    totals: Scores | None = None


@dataclass(frozen=True, slots=True)
class _Others:
    """The other plugins' results on all rows; variants do not differ in what these plugins read.

    ``fits`` is None if every row has a node and fits, ``total`` None if all scores are equal.
    ``all_fit``: every row that fits here was feasible in the evaluation.
    ``parts``: weighted scores by plugin, a number if they are equal on all rows.
    ``changes_with_pods``: some results change when pods come and go, so the evaluation is
    refreshed before each variant.
    """

    fits: Bools | None
    total: Scores | None
    all_fit: bool
    parts: Mapping[str, Scores | int]
    changes_with_pods: bool


class Variants:
    """Chooses rows for pods that only the ``varying`` plugins tell from an evaluation's pod."""

    def __init__(
        self, evaluation: ClassEvaluation, pod: PodInfo, others: _Others, rows: Rows
    ) -> None:
        """Use ``Variants.of`` instead. ``rows``: the rows that have a node."""
        self._rows = rows
        self._evaluation, self._pod = evaluation, pod
        self._runtime = runtime = evaluation.runtime
        self._cluster: ClusterView = evaluation.cluster
        self._state = evaluation.state
        varying = runtime.varying
        self._pre_filter = [named for named in runtime.pre_filter if named.name in varying]
        self._filter = [named for named in runtime.filter if named.name in varying]
        self._score = [named for named in runtime.score if named.name in varying]
        #: Other plugins that skipped Score, but may not skip it if other rows are feasible.
        self._feasible_dependent = [
            named
            for named in runtime.score
            if named.name not in varying and named.traits.depends_on_feasible
        ]
        self.cost = evaluation.cost
        self._versions = self._now()
        self._inputs = _inputs(evaluation)
        #: One pod per shape, used if the other plugins read only the shape.
        self._known: dict[PodShape, PodInfo] = {pod.cls.shape: pod}
        self._joint = self._joint_choice()
        self._take(others)
        self._of_shape = not any(
            projecting.traits.reads_requests
            for name, projecting in runtime.projecting.items()
            if name not in varying
        )

    @classmethod
    def of(
        cls, evaluation: ClassEvaluation, pod: PodInfo, *, reserves: bool = False
    ) -> Variants | None:
        """Take the results that variants share from an evaluation; None if they share too little.

        Call it after a successful refresh for ``pod``, before anything changes. ``reserves``: a
        Reserve plugin acts on such pods. If it reads more than Nodes, it must see each pod before
        the next is decided, so there are no variants.
        """
        others = _others(evaluation) if _covers_all_rows(evaluation) else None
        if others is None or (others.changes_with_pods and reserves):
            return None
        return cls(evaluation, pod, others, np.flatnonzero(evaluation.cluster.nodes.alive))

    def _joint_choice(self) -> JointChoice | None:
        """Return the joint implementation of all varying plugins, if one of them offers it."""
        filters = {named.name: named.plugin for named in self._filter}
        scores = {named.name: (named.plugin, named.weight) for named in self._score}
        offers = (
            plugin.joint_choice(filters, scores)
            for plugin in filters.values()
            if isinstance(plugin, JointChoicePlugin)
        )
        return next((offer for offer in offers if offer is not None), None)

    def _take(self, others: _Others) -> None:
        """Take over new results of the other plugins."""
        self._others = others
        #: The number of rows on which the other plugins let a pod fit.
        rows, fits = len(self._rows), others.fits
        self._fitting = rows if fits is None else int(np.count_nonzero(fits))
        if self._joint is not None:
            size = self._cluster.nodes.size
            self._base = self._joint.base(size, others.fits, others.total)

    def _now(self) -> Hashable:
        cluster = self._cluster
        return cluster.version("Node"), cluster.nodes.size, cluster.nominator.version

    def is_valid_for(self, pod: PodInfo) -> bool:
        """Whether the shared results are still valid for a pod. Exceptions of plugins propagate."""
        if self._now() != self._versions or pod.nominated_node_name:
            return False
        if self._others.changes_with_pods:
            return self._refresh_others()
        # Plugins that read no requests see no difference between pods of one shape. Asking about
        # the first pod lets them reuse what they compiled for its class.
        if self._of_shape:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            pod = self._known.setdefault(pod.cls.shape, pod)
        cluster = self._cluster
        return all(read(pod, cluster) == value for read, value in self._inputs)

    def _refresh_others(self) -> bool:
        """Refresh the evaluation after pods came or went, and take over the others' results."""
        evaluation = self._evaluation
        # For its own pod, because the evaluation also has the varying plugins' results.
        evaluation.refresh(self._pod)
        self.cost.begin()
        if evaluation.failure is not None or not _covers_all_rows(evaluation):
            return False
        others = _others(evaluation)
        if others is None:
            return False
        self._take(others)
        return True

    def select(self, pod: PodInfo, *, all_totals: bool = False) -> VariantChoice | None:
        """Return the row for a variant; None if it needs its own evaluation."""
        self.cost.begin()
        try:
            return self._select(pod, all_totals) if self.is_valid_for(pod) else None
        except Exception:  # of a plugin: the pod's own evaluation will report it
            return None

    def _select(self, pod: PodInfo, all_totals: bool) -> VariantChoice | None:
        state = self._state.copy()
        for named in self._pre_filter:
            result = pre_filter_one(named, state, pod, self._cluster)
            if not (result.status.ok or result.status.skipped) or result.node_names is not None:
                return None
        self.cost.pre_filter_done()
        # The joint choice keeps no totals, only the best row.
        if self._joint is not None and not all_totals:
            choice = self._select_jointly(self._joint, state, pod)
            if choice is not None:
                return choice
        fits = self._fits(state, pod)
        feasible = len(self._rows) if fits is None else int(np.count_nonzero(fits))
        if not self._has_same_rows(feasible):
            left = self._rows if fits is None else np.flatnonzero(fits)
            if not len(left) or not self._others_stay_valid(state, pod, left):
                return None
        self.cost.filter_done()
        total = self._total(state, pod)
        if total is None:
            return None
        if fits is not None:
            np.putmask(total, ~fits, NO_TOTAL)
        row = int(total.argmax())
        self.cost.end(feasible=True)
        if total[row] == NO_TOTAL:
            return None
        return VariantChoice(row, state, int(total[row]), feasible, total)

    def _select_jointly(
        self, joint: JointChoice, state: CycleState, pod: PodInfo
    ) -> VariantChoice | None:
        """Filter and score in one loop over the rows; None if plugins must run one by one.

        The metrics count it as one run of each of these plugins.
        """
        best = joint.best(pod.cls, self._cluster.nodes, self._base)
        if best is None:
            return None
        agree = self._has_same_rows(best.feasible)
        if not agree and not self._others_stay_valid(state, pod, joint.feasible()):
            return None
        self.cost.filter_done()
        for filtering in self._filter:
            filtering.runs.count()
        for scoring in self._score:
            scoring.runs.count()
        self.cost.end(feasible=True)
        return VariantChoice(best.row, state, best.total, best.feasible)

    def details(self, pod: PodInfo, choice: VariantChoice) -> ScoreDetails:
        """Return the scores behind a choice with all totals; nothing may have changed since.

        Scores a few rows again. Raises PluginFailure.
        """
        assert choice.totals is not None
        rows, ties = best_rows(choice.totals, choice.row)
        scores: dict[str, list[int]] = {}
        for name, part in self._others.parts.items():
            scores[name] = [part] * len(rows) if isinstance(part, int) else part[rows].tolist()
        for named in self._score:
            if named.name not in choice.state.skip_score:
                score, nodes = named.plugin.score, self._cluster.nodes
                raw = guarded(named.name, SCORE_WORDING, score, choice.state, pod, nodes, rows)
                scores[named.name] = (raw * named.weight).tolist()
        totals = choice.totals[rows] + self._flat_total()
        return put_together(rows, totals.tolist(), scores, ties)

    def total(self, choice: VariantChoice) -> int:
        """Return the chosen row's total."""
        return choice.total + self._flat_total()

    def _flat_total(self) -> int:
        """Return what all rows have in common; as in ``Totals``, 1 without Score plugins."""
        flat = sum(part for part in self._others.parts.values() if isinstance(part, int))
        return flat + (not self._runtime.score)

    def _fits(self, state: CycleState, pod: PodInfo) -> Bools | None:
        """Return where the pod fits, as Bools by row.

        Return ``_others.fits`` itself if the varying plugins reject nothing.
        """
        fits, nodes = self._others.fits, self._cluster.nodes
        for named in self._filter:
            if named.name in state.skip_filter:
                continue
            verdicts = filter_all(named, state, pod, nodes, self._rows)
            if not verdicts.reasons:
                continue
            if any(reason.code is Code.ERROR for reason in verdicts.reasons):
                raise PluginFailure(named.name, "")
            passed = verdicts.bits == 0
            fits = passed & (nodes.alive if fits is None else fits)
        return fits

    def _has_same_rows(self, feasible: int) -> bool:
        """Whether the variant's feasible rows, of this number, are the same as the evaluation's."""
        # A variant's feasible rows are among those that fit the other plugins, and by ``all_fit``
        # these are the evaluation's. So equal numbers mean equal rows.
        return feasible == self._fitting and self._others.all_fit

    def _others_stay_valid(self, state: CycleState, pod: PodInfo, feasible: Rows) -> bool:
        """Whether the other plugins' scores stay valid with other feasible rows."""
        if self._others.changes_with_pods:  # Some scores are normalised over the feasible rows.
            return False
        for named in self._feasible_dependent:
            pre_score_one(self._runtime, named, state, pod, self._cluster, feasible)
            if named.name not in self._runtime.pre_score or named.name not in state.skip_score:
                return False
        return True

    def _total(self, state: CycleState, pod: PodInfo) -> Scores | None:
        """Return the totals of all rows, feasible or not, in a new array.

        None if a score is out of range; that may be a row that is not feasible.
        """
        nodes, rows, others = self._cluster.nodes, self._rows, self._others.total
        total: Scores | None = None
        for named in self._score:
            pre_score_one(self._runtime, named, state, pod, self._cluster, NO_ROWS)
            if named.name in state.skip_score:
                continue
            raw = score_all(named, state, pod, nodes, rows)
            if len(rows) < len(raw):
                # Undefined there, and ``in_range`` looks at every element.
                raw[~nodes.alive] = 0
            if not in_range(raw):
                return None
            if named.weight != 1:
                raw *= named.weight
            if total is None:
                total = raw
            else:
                total += raw
        if total is None:
            total = np.zeros(nodes.size, dtype=np.int64)
        if others is not None:
            total += others
        return total


def _inputs(
    evaluation: ClassEvaluation,
) -> Sequence[tuple[Callable[[PodInfo, ClusterView], Hashable], Hashable]]:
    """Return a reader and the last value for the inputs of each other plugin."""
    runtime, values = evaluation.runtime, evaluation.inputs.by_plugin
    readers = [(named.name, named.plugin.inputs) for named in runtime.pre_filter]
    readers += [(n, plugin.inputs) for n, plugin in runtime.inputs_without_pre_filter.items()]
    varying = runtime.varying
    return [
        (read, values[name])
        for name, read in readers
        if name not in varying and values[name] != FIXED_INPUTS
    ]


def _covers_all_rows(evaluation: ClassEvaluation) -> bool:
    """Whether a refreshed evaluation covers all rows, and no pod is nominated."""
    return (
        evaluation.is_evaluated
        and evaluation.runtime.profile.percentage_of_nodes_to_score is None
        and evaluation.feasibility.node_names is None
        and not evaluation.cluster.nominator.nodes()
    )


def _others(evaluation: ClassEvaluation) -> _Others | None:
    """Combine the results of the other plugins; None if variants do not share them."""
    varying, nodes = evaluation.runtime.varying, evaluation.cluster.nodes
    filtering = [c for c in evaluation.feasibility.columns if c.named.name not in varying]
    scoring = [c for c in evaluation.scores.columns if c.named.name not in varying]
    fits = np.array(nodes.alive, dtype=np.bool_)
    for column in filtering:
        if column.active and column.rejects:
            fits &= column.bits == 0
    all_fit = bool(np.array_equal(fits, evaluation.feasibility.feasible))
    # Plugins that read only Nodes cannot change here: ``_now`` has the version of Nodes.
    changing = any(c.active and not c.only_nodes for c in filtering)
    changing = changing or any(c.active and not c.only_nodes for c in scoring)
    parts: Mapping[str, Scores | int] | None
    if changing:
        parts = _scores_for_same_rows(scoring) if all_fit else None
    else:
        parts = _scores_for_any_rows(scoring, nodes.alive, all_fit=all_fit)
    if parts is None:
        return None
    columns = [part for part in parts.values() if not isinstance(part, int)]
    total: Scores | None = sum(columns[1:], start=columns[0]) if columns else None
    everywhere = None if fits.all() else fits
    return _Others(everywhere, total, all_fit, parts, changing)


def _scores_for_same_rows(columns: Sequence[ScoreColumn]) -> Mapping[str, Scores | int] | None:
    """Return the evaluation's weighted scores, for pods with the same feasible rows.

    None if nothing has been scored.
    """
    parts: dict[str, Scores | int] = {}
    for column in columns:
        if not column.active:
            continue
        if column.flat is None and not len(column.scores):
            return None
        parts[column.named.name] = column.scores if column.flat is None else column.flat
    return parts


def _scores_for_any_rows(
    columns: Sequence[ScoreColumn], alive: Bools, *, all_fit: bool
) -> Mapping[str, Scores | int] | None:
    """Return weighted scores by plugin, a number if all are equal; None if variants may differ.

    Normalised scores must be equal on all rows that may be feasible. Others must be known for all
    rows, which is so in shared columns, or if ``all_fit``.
    """
    parts: dict[str, Scores | int] = {}
    for column in columns:
        if not column.active:
            continue
        if column.normalizes:
            # Equal raw scores get the same normalised score whichever rows are feasible.
            same = column.flat is not None and (all_fit or _is_flat(column, alive))
            if not same or not column.by_extremes:
                return None
            parts[column.named.name] = column.flat or 0
            continue
        # An unshared column has scores only of rows that were feasible for the evaluation's pod.
        if not (column.shared or all_fit) or not len(column.raw):
            return None
        parts[column.named.name] = column.raw * column.named.weight
    return parts


def _is_flat(column: ScoreColumn, alive: Bools) -> bool:
    raw = column.raw[alive] if column.shared else NO_ROWS
    return bool(len(raw)) and int(raw.min()) == int(raw.max())
