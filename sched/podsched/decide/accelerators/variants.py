"""Pods that differ in nothing but what is read from whole columns: one pass over these for each.

With requests of its own on every pod (from a recommender, say), pods are equal to all plugins but
those of resources, and those are fast over whole columns. An evaluation for each pod, with all its
parts, takes five times as long as that. So what the other plugins say is taken from one evaluation,
and the *variants* of its class are decided on without one:

    row                  0     1     2     3
    the others: fits     yes   yes   no    yes      ) of the evaluation, which is brought up to
                total    150   150   .     150      ) date where they read more than Nodes
    own plugins: fits    yes   no    yes   yes      ) of the pod: ``filter_all``, ``score_all``
                 total   120   80    90    121      )
    best row: 3

Guarantee: ``select`` returns the row that an evaluation of the pod would give (property test), or
None where it cannot be sure: then the pod is evaluated as others are. It is sure as long as

* the other plugins' inputs are those of the evaluation, no Node has changed since, and no pod is
  nominated;
* their scores are final, or the same on all rows, so that it does not matter which are feasible,
  and their PreScore has nothing to do for the pod;
* or the same rows are feasible as for the evaluation's pod.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.decide.decision import ScoreDetails
from podsched.decide.evaluation.class_columns import ScoreColumn
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.decide.evaluation.filtering import filter_all
from podsched.decide.evaluation.pre_filtering import pre_filter_one
from podsched.decide.evaluation.row_groups import NO_TOTAL
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.score_details import best_rows, put_together
from podsched.decide.evaluation.scoring import (
    SCORE_WORDING,
    in_range,
    pre_score_one,
    score_all,
)
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.lookahead import JointChoice, JointChoicePlugin
from podsched.framework.nodes import Bools, ClusterView
from podsched.framework.plugin import FIXED_INPUTS, CycleState
from podsched.framework.pods import PodInfo, PodShape
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Scores

#: Shapes of which a pod is remembered.
_MOST_SHAPES: Final = 64


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """The row for a pod, and the state that its plugins have left.

    ``total``: the row's, but for what is the same on each; ``feasible``: how many rows fit;
    ``totals``: those of all rows, where they were asked for.
    """

    row: int
    state: CycleState
    total: int
    feasible: int
    totals: Scores | None = None


@dataclass(frozen=True, slots=True)
class _Others:
    """What the plugins that all variants are equal to say of all rows.

    ``fits`` is None where every row has a node and fits, ``total`` None where all scores are the
    same. ``all_fit``: the evaluation that it comes from left out no row that fits here.
    ``parts``: the weighted scores of the plugins, a number where they are the same on all rows.
    ``follows``: some of it changes when pods come and go, and holds as long as none does.
    """

    fits: Bools | None
    total: Scores | None
    all_fit: bool
    parts: Mapping[str, Scores | int]
    follows: bool


class Variants:
    """Chooses for pods that differ from an evaluation's in the ``varying`` plugins alone."""

    def __init__(
        self, evaluation: ClassEvaluation, pod: PodInfo, others: _Others, rows: Rows
    ) -> None:
        """Use ``Variants.of``. ``rows``: those with a node."""
        self._rows = rows
        self._evaluation, self._pod = evaluation, pod
        self._runtime = runtime = evaluation.runtime
        self._cluster: ClusterView = evaluation.cluster
        self._state = evaluation.state
        varying = runtime.varying
        self._pre_filter = [named for named in runtime.pre_filter if named.name in varying]
        self._filter = [named for named in runtime.filter if named.name in varying]
        self._score = [named for named in runtime.score if named.name in varying]
        self._waking = [
            named
            for named in runtime.score
            if named.name not in varying and named.traits.depends_on_feasible
        ]
        self.cost = evaluation.cost
        self._versions = self._now()
        self._inputs = _inputs(evaluation)
        #: A pod for each shape that was looked at, where plugins read nothing else.
        self._known: dict[PodShape, PodInfo] = {pod.cls.shape: pod}
        self._joint = self._joint_choice()
        self._take(others)
        self._of_shape = not any(
            read.reads_requests for name, read in runtime.projecting.items() if name not in varying
        )

    @classmethod
    def of(
        cls, evaluation: ClassEvaluation, pod: PodInfo, *, reserves: bool = False
    ) -> Variants | None:
        """Take from an evaluation what its class's variants have in common; None: too little.

        ``pod``: one that it was refreshed for; ``reserves``: a plugin keeps books of such pods, and
        so has to hear of each before the next is decided on, if it reads more than Nodes. To be
        called after a refresh that has not failed, before anything changes.
        """
        others = _others(evaluation) if _is_sure(evaluation) else None
        if others is None or (others.follows and reserves):
            return None
        return cls(evaluation, pod, others, np.flatnonzero(evaluation.cluster.nodes.alive))

    def _joint_choice(self) -> JointChoice | None:
        """Return what chooses for all varying plugins together, if one of them offers it."""
        filters = {named.name: named.plugin for named in self._filter}
        scores = {named.name: (named.plugin, named.weight) for named in self._score}
        offers = (
            plugin.joint_choice(filters, scores)
            for plugin in filters.values()
            if isinstance(plugin, JointChoicePlugin)
        )
        return next((offer for offer in offers if offer is not None), None)

    def _take(self, others: _Others) -> None:
        """Go on with what the others say now."""
        self._others = others
        #: On how many rows they let a pod fit.
        rows, fits = len(self._rows), others.fits
        self._fitting = rows if fits is None else int(np.count_nonzero(fits))
        if self._joint is not None:
            size = self._cluster.nodes.size
            self._base = self._joint.base(size, others.fits, others.total)

    def _now(self) -> Hashable:
        cluster = self._cluster
        return cluster.version("Node"), cluster.nodes.size, cluster.nominations_version

    def holds(self, pod: PodInfo) -> bool:
        """Whether everything that it rests on is as it was. Lets exceptions of plugins through."""
        if self._now() != self._versions or pod.nominated_node_name:
            return False
        if self._others.follows:
            return self._catch_up()
        # To plugins that read no requests, pods of one shape are one and the same. They remember
        # what they found out about the first one's class.
        if self._of_shape:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            pod = self._known.setdefault(pod.cls.shape, pod)
        cluster = self._cluster
        return all(read(pod, cluster) == value for read, value in self._inputs)

    def _catch_up(self) -> bool:
        """Have the evaluation say what the others make of pods that came or went."""
        evaluation = self._evaluation
        # For its own pod: what the varying plugins say there is that pod's.
        evaluation.refresh(self._pod)
        self.cost.begin()
        if evaluation.failure is not None or not _is_sure(evaluation):
            return False
        others = _others(evaluation)
        if others is None:
            return False
        self._take(others)
        return True

    def select(self, pod: PodInfo, *, all_totals: bool = False) -> VariantChoice | None:
        """Return the row for a variant; None: an evaluation of its own has to tell."""
        self.cost.begin()
        try:
            return self._select(pod, all_totals) if self.holds(pod) else None
        except Exception:  # a plugin's: the evaluation that follows reports it
            return None

    def _select(self, pod: PodInfo, all_totals: bool) -> VariantChoice | None:
        other = self._state
        state = CycleState(dict(other.data), set(other.skip_filter), set(other.skip_score))
        for named in self._pre_filter:
            result = pre_filter_one(named, state, pod, self._cluster)
            if not (result.status.ok or result.status.skipped) or result.node_names is not None:
                return None
        self.cost.pre_filter_done()
        if self._joint is not None and not all_totals:
            choice = self._select_jointly(self._joint, state, pod)
            if choice is not None:
                return choice
        fits = self._fits(state, pod)
        feasible = len(self._rows) if fits is None else int(np.count_nonzero(fits))
        if not self._others_agree(feasible):
            left = self._rows if fits is None else np.flatnonzero(fits)
            if not len(left) or not self._others_stay_out(state, pod, left):
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
        """Do the rest in one loop over the rows; None: the plugins have to be asked."""
        best = joint.best(pod.cls, self._cluster.nodes, self._base)
        if best is None:
            return None
        agree = self._others_agree(best.feasible)
        if not agree and not self._others_stay_out(state, pod, joint.feasible()):
            return None
        self.cost.filter_done()
        for filtering in self._filter:
            filtering.runs.count()
        for scoring in self._score:
            scoring.runs.count()
        self.cost.end(feasible=True)
        return VariantChoice(best.row, state, best.total, best.feasible)

    def details(self, pod: PodInfo, choice: VariantChoice) -> ScoreDetails:
        """Return what a choice with all totals was made from; nothing may have changed since.

        Asks the plugins about a few rows again. Raises PluginFailure.
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
        flat = sum(part for part in self._others.parts.values() if isinstance(part, int))
        return put_together(rows, (choice.totals[rows] + flat).tolist(), scores, ties)

    def total(self, choice: VariantChoice) -> int:
        """Return the chosen row's total."""
        flat = sum(part for part in self._others.parts.values() if isinstance(part, int))
        return choice.total + flat

    def _fits(self, state: CycleState, pod: PodInfo) -> Bools | None:
        """Return the rows on which the pod fits; the very array of the others, if all of these."""
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

    def _others_agree(self, feasible: int) -> bool:
        """Whether so many feasible rows are those of the evaluation."""
        return feasible == self._fitting and self._others.all_fit

    def _others_stay_out(self, state: CycleState, pod: PodInfo, feasible: Rows) -> bool:
        """Whether PreScore of other plugins has nothing to do where other rows are feasible."""
        if self._others.follows:  # Some of it is normalised over the rows that are feasible.
            return False
        for named in self._waking:
            pre_score_one(self._runtime, named, state, pod, self._cluster, feasible)
            if self._runtime.pre_score_of(named) is None or named.name not in state.skip_score:
                return False
        return True

    def _total(self, state: CycleState, pod: PodInfo) -> Scores | None:
        """Return the totals of all rows, in a new array; None where a score is out of range."""
        nodes, rows, others = self._cluster.nodes, self._rows, self._others.total
        total: Scores | None = None
        for named in self._score:
            pre_score_one(self._runtime, named, state, pod, self._cluster, NO_ROWS)
            if named.name in state.skip_score:
                continue
            raw = score_all(named, state, pod, nodes, rows)
            if len(rows) < len(raw):
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
    """Return how the inputs of the other plugins are read, and what they were."""
    runtime, values = evaluation.runtime, evaluation.inputs.by_plugin
    readers = [(named.name, named.plugin.inputs) for named in runtime.pre_filter]
    readers += [(n, plugin.inputs) for n, plugin in runtime.inputs_without_pre_filter.items()]
    varying = runtime.varying
    return [
        (read, values[name])
        for name, read in readers
        if name not in varying and values[name] != FIXED_INPUTS
    ]


def _is_sure(evaluation: ClassEvaluation) -> bool:
    """Whether an evaluation just refreshed has looked at all rows, and no pod is nominated."""
    return (
        evaluation.is_evaluated
        and evaluation.runtime.percentage_of_nodes_to_score is None
        and evaluation.feasibility.node_names is None
        and not evaluation.cluster.nominated_nodes()
    )


def _others(evaluation: ClassEvaluation) -> _Others | None:
    """Add up what the plugins that do not vary say; None if that is not the same for all."""
    varying, nodes = evaluation.runtime.varying, evaluation.cluster.nodes
    filtering = [c for c in evaluation.feasibility.columns if c.named.name not in varying]
    scoring = [c for c in evaluation.scores.columns if c.named.name not in varying]
    fits = np.array(nodes.alive, dtype=np.bool_)
    for column in filtering:
        if column.active and column.rejects:
            fits &= column.bits == 0
    all_fit = bool(np.array_equal(fits, evaluation.feasibility.feasible))
    follows = any(c.active and not c.only_nodes for c in filtering)
    follows = follows or any(c.active and not c.only_nodes for c in scoring)
    parts: Mapping[str, Scores | int] | None
    if follows:
        parts = _scores_that_follow(scoring) if all_fit else None
    else:
        parts = _others_scores(scoring, nodes.alive, all_fit=all_fit)
    if parts is None:
        return None
    columns = [part for part in parts.values() if not isinstance(part, int)]
    total: Scores | None = sum(columns[1:], start=columns[0]) if columns else None
    everywhere = None if fits.all() else fits
    return _Others(everywhere, total, all_fit, parts, follows)


def _scores_that_follow(columns: Sequence[ScoreColumn]) -> Mapping[str, Scores | int] | None:
    """Return the weighted scores as they are, for pods to which the same rows are feasible.

    None where nothing has been scored.
    """
    parts: dict[str, Scores | int] = {}
    for column in columns:
        if not column.active:
            continue
        if column.flat is None and not len(column.scores):
            return None
        parts[column.named.name] = column.scores if column.flat is None else column.flat
    return parts


def _others_scores(
    columns: Sequence[ScoreColumn], alive: Bools, *, all_fit: bool
) -> Mapping[str, Scores | int] | None:
    """Return their weighted scores, a number where all are the same; None if it is not certain.

    What is normalised has to be the same on all rows that may be feasible. Else it is certain only
    where all rows were asked about: in shared columns, or if ``all_fit``.
    """
    parts: dict[str, Scores | int] = {}
    for column in columns:
        if not column.active:
            continue
        if column.normalizes:
            same = column.flat is not None and (all_fit or _is_flat(column, alive))
            if not same or not column.by_extremes:
                return None
            parts[column.named.name] = column.flat or 0
            continue
        if not (column.shared or all_fit) or not len(column.raw):
            return None
        parts[column.named.name] = column.raw * column.named.weight
    return parts


def _is_flat(column: ScoreColumn, alive: Bools) -> bool:
    raw = column.raw[alive] if column.shared else NO_ROWS
    return bool(len(raw)) and int(raw.min()) == int(raw.max())
