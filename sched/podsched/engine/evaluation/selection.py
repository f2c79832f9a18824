"""Choosing nodes for pods of one class, one at a time or a run of them at once.

Rules: the highest total wins, and of equal totals the lowest row, so that a choice can be
repeated; kube-scheduler takes any of the best. A run of equal pods is placed exactly as one after
another would be (property test): with ``LookaheadScores`` where a pod's arrival changes only its own
row, else pod by pod.

``percentageOfNodesToScore``: unset scores every feasible node; 0 means kube-scheduler's adaptive
share (S5), and where a share is taken, the next pod starts where this one stopped (S6).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from podsched.engine.evaluation.class_evaluation import ClassEvaluation
from podsched.engine.evaluation.class_scores import NO_TOTAL
from podsched.engine.evaluation.filtering import run_filters
from podsched.engine.evaluation.lookahead import LookaheadScores
from podsched.engine.evaluation.scoring import run_pre_score, run_score
from podsched.engine.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.plugin import PASSED, CycleState, Lookahead
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

#: minFeasibleNodesToFind and minFeasibleNodesPercentageToFind of kube-scheduler.
MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENTAGE = 5

#: Pods placed at most between two evaluations.
MAX_ROUND = 512

LOOKAHEAD_WORDING = 'asking plugin "{}" what it would say next'

#: Carries out choices: ``commit(pods, rows)`` assumes each pod on its row's node, in that order.
Commit = Callable[[Sequence[PodInfo], Sequence[int]], None]


class Ending(Enum):
    """Why a run of pods ended."""

    PLACED = "every pod has a node"
    RESERVED = "a plugin has to reserve for the last pod before the next is looked at"
    UNSCHEDULABLE = "no node fits the next pod"
    FAILED = "a plugin failed for the next pod"


@dataclass(frozen=True, slots=True)
class Choice:
    """A node for a pod. ``evaluated`` and ``feasible`` are numbers of nodes."""

    row: int
    total: int
    feasible: int
    evaluated: int


@dataclass(frozen=True, slots=True)
class Run:
    """Where the first ``len(rows)`` pods of a run went, and why it ended there."""

    rows: list[int]
    ending: Ending


def num_feasible_nodes_to_find(percentage: int | None, num_all_nodes: int) -> int:
    """How many feasible nodes are scored (S5); None: all, 0: the adaptive share."""
    if percentage is None or percentage >= 100 or num_all_nodes < MIN_FEASIBLE_NODES:
        return num_all_nodes
    if percentage == 0:
        percentage = max(MIN_FEASIBLE_PERCENTAGE, 50 - num_all_nodes // 125)
    return max(num_all_nodes * percentage // 100, MIN_FEASIBLE_NODES)


class NoEffect:
    """``framework.plugin.Lookahead`` of a plugin to which pods of the class make no difference."""

    covers_own_row = True

    def place(self, row: int) -> bool:
        return True


_STILL = NoEffect()


class Selector:
    """Chooses for the pods of one class."""

    def __init__(self, evaluation: ClassEvaluation, rotation: Rotation | None = None) -> None:
        self.evaluation = evaluation
        self._rotation = rotation or Rotation()
        #: The inputs after pods of the class were assumed, and the plugins whose inputs changed
        #: with it.
        self._learned: dict[str, Hashable] | None = None
        self._moved: frozenset[str] = frozenset()

    # ------------------------------------------------------------------ one pod

    def select(self, pod: PodInfo) -> Choice | None:
        """Return the node for one pod; None when none fits or ``evaluation.failure`` says what failed."""
        self.evaluation.refresh(pod)
        return self._choose(pod)

    def _choose(self, pod: PodInfo) -> Choice | None:
        evaluation = self.evaluation
        if evaluation.failure is not None or not evaluation.pre_filtered.status.ok:
            return None
        nominated = self.fitting_nominee(pod)
        if nominated is not None:
            return Choice(nominated, 0, 1, 1)
        return self._best(pod, evaluation.feasible_rows)

    def _nominated_node(self, pod: PodInfo) -> str:
        # The cache knows it before the pod's status does: a victim may be gone before the patch
        # that tells of the nomination has come back.
        return self.evaluation.cluster.nominated_node(pod.uid) or pod.nominated_node_name

    def fitting_nominee(self, pod: PodInfo) -> int | None:
        """Return the row of the pod's nominated node if the pod fits there (S10), after a refresh.

        If it does not, the row no longer counts as feasible: what fits the class may not fit this
        pod, to which the row's nominated pods mean something else.
        """
        evaluation = self.evaluation
        node_name = self._nominated_node(pod)
        nodes = evaluation.cluster.nodes
        row = nodes.row_of(node_name) if node_name else None
        if row is None:
            return None
        rows = np.array([row], dtype=np.intp)
        cluster, state = evaluation.cluster, evaluation.state
        outcome = run_filters(evaluation.runtime, state, pod, nodes, rows, cluster)
        if outcome.plugin[0] == PASSED:
            return row
        evaluation.override_row(row, outcome)
        return None

    def sample(self, feasible: Rows) -> Rows:
        """Of the feasible rows those that are scored, ascending (S5, S6): all, or a share."""
        nodes = self.evaluation.cluster.nodes
        order = np.flatnonzero(nodes.alive)
        percentage = self.evaluation.runtime.percentage_of_nodes_to_score
        wanted = num_feasible_nodes_to_find(percentage, len(order))
        if wanted >= len(order) or not len(feasible):
            return feasible
        return np.sort(self._rotation.take(order, feasible, wanted)[0])

    def totals(self, pod: PodInfo, rows: Rows) -> Scores:
        """Weighted totals of feasible rows when these alone compete. Raises PluginFailure."""
        evaluation = self.evaluation
        if len(rows) == len(evaluation.feasible_rows):
            return evaluation.total[rows]
        state = CycleState(dict(evaluation.state.data), set(evaluation.state.skip_filter))
        run_pre_score(evaluation.runtime, state, pod, evaluation.cluster, rows)
        return run_score(evaluation.runtime, state, pod, evaluation.cluster.nodes, rows).total

    def _best(self, pod: PodInfo, feasible: Rows) -> Choice | None:
        evaluation = self.evaluation
        num_all_nodes = int(np.count_nonzero(evaluation.cluster.nodes.alive))
        percentage = evaluation.runtime.percentage_of_nodes_to_score
        wanted = num_feasible_nodes_to_find(percentage, num_all_nodes)
        if not len(feasible):
            self._rotation.advance(num_all_nodes, num_all_nodes)
            return None
        if wanted < num_all_nodes:
            return self._best_of_some(pod, feasible, wanted)
        totals = evaluation.total[feasible]
        place = int(totals.argmax())
        return Choice(int(feasible[place]), int(totals[place]), len(feasible), num_all_nodes)

    def _best_of_some(self, pod: PodInfo, feasible: Rows, wanted: int) -> Choice | None:
        order = np.flatnonzero(self.evaluation.cluster.nodes.alive)
        some, processed = self._rotation.take(order, feasible, wanted)
        rows = np.sort(some)
        try:
            totals = self.totals(pod, rows)
        except PluginFailure as failure:
            self.evaluation.failure = failure
            return None
        place = int(totals.argmax())
        return Choice(int(rows[place]), int(totals[place]), len(rows), processed)

    # ------------------------------------------------------------------ a run of pods

    def select_batch(self, pods: Sequence[PodInfo], commit: Commit) -> Run:
        """Places a run of pods of the class, as if one after another.

        Ends early when a pod has no node (``evaluation`` then tells why, for that pod), and after
        a pod for which a plugin reserves something.
        """
        placed: list[int] = []
        while len(placed) < len(pods):
            left = pods[len(placed) : len(placed) + MAX_ROUND]
            rows = self._round(left)
            if not rows:
                failed = self.evaluation.failure is not None
                return Run(placed, Ending.FAILED if failed else Ending.UNSCHEDULABLE)
            commit(left[: len(rows)], rows)
            self._learn(left[0])
            placed += rows
            if self._reserves() and len(placed) < len(pods):
                return Run(placed, Ending.RESERVED)
        return Run(placed, Ending.PLACED)

    def _round(self, pods: Sequence[PodInfo]) -> list[int]:
        first = pods[0]
        self.evaluation.refresh(first)
        followed = self._followed(first)
        if followed is not None:
            ahead = self._unnominated(pods)
            rows = self._look_ahead(ahead, followed) if len(ahead) > 1 else []
            if rows:
                return rows
        choice = self._choose(first)
        return [] if choice is None else [choice.row]

    def _unnominated(self, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        for count, pod in enumerate(pods):
            if self._nominated_node(pod):
                return pods[:count]
        return pods

    def _followed(self, pod: PodInfo) -> dict[str, Lookahead] | None:
        """Whether a pod of this class changes nothing but the row it goes to, or what it changes
        beyond can be followed, by plugin; else None.
        """
        evaluation = self.evaluation
        runtime = evaluation.runtime
        if evaluation.failure is not None or not len(evaluation.feasible_rows):
            return None
        if runtime.percentage_of_nodes_to_score is not None:
            return None
        if self._learned is None or not self._is_as_learned() or evaluation.reads_pods:
            return None
        # Rows with nominated pods are judged with these added, which nobody follows.
        if self._reserves() or (self._moved and evaluation.feasibility.nominated.rows):
            return None
        found = {}
        for name in self._moved:
            plugin = runtime.lookahead.get(name)
            if plugin is None:
                return None
            try:
                ahead = guarded(
                    name,
                    LOOKAHEAD_WORDING,
                    plugin.look_ahead,
                    evaluation.state,
                    pod,
                    evaluation.cluster,
                )
            except PluginFailure:
                return None
            if ahead is None:
                return None
            found[name] = ahead
        # A plugin that counts pods, but none of this class, would count them in a trial all the
        # same, as kube-scheduler does (an empty selector of a spread constraint, for one).
        for named in runtime.filter:
            if named.name not in found and named.name in runtime.lookahead:
                found[named.name] = _STILL
        return found

    def _reserves(self) -> bool:
        """Whether a plugin keeps books of pods like these, which the next one has to see."""
        skipped = self.evaluation.state.skip_filter
        return any(named.name not in skipped for named in self.evaluation.runtime.reserve)

    def _fingerprint(self, pod: PodInfo) -> tuple[Hashable, ...] | None:
        try:
            return self.evaluation.inputs.now(pod)
        except PluginFailure:
            return None

    def _learn(self, pod: PodInfo) -> None:
        """Note whose inputs changed when pods of the class were assumed."""
        evaluation = self.evaluation
        before, now = evaluation.last_inputs, self._fingerprint(pod)
        self._learned = None
        if now is not None and len(now) == len(before):
            names = evaluation.inputs.names
            self._learned = dict(zip(names, now, strict=True))
            named = zip(names, before, now, strict=True)
            self._moved = frozenset(name for name, old, new in named if old != new)

    def _is_as_learned(self) -> bool:
        """Whether the inputs that stayed when pods of the class were assumed are still the same."""
        assert self._learned is not None
        evaluation = self.evaluation
        now = evaluation.last_inputs
        return len(now) == len(self._learned) and all(
            name in self._moved or inputs == self._learned[name]
            for name, inputs in zip(evaluation.inputs.names, now, strict=True)
        )

    def _look_ahead(self, pods: Sequence[PodInfo], followed: Mapping[str, Lookahead]) -> list[int]:
        """Return the rows for the first of the pods, in order; as many as can be told beforehand."""
        evaluation = self.evaluation
        rows, barrier = self._front(len(pods))
        if not len(rows):
            return []
        try:
            spoken_for = {name for name, one in followed.items() if one.covers_own_row}
            ahead = LookaheadScores(evaluation, pods[0], rows, spoken_for)
            return self._follow(ahead, rows, barrier, len(pods), list(followed.values()))
        except PluginFailure:
            return []

    def _follow(
        self,
        ahead: LookaheadScores,
        rows: Rows,
        barrier: tuple[int, int],
        count: int,
        followed: Sequence[Lookahead] = (),
    ) -> list[int]:
        totals = self.evaluation.total[rows].tolist()
        heap = [(-total, row) for total, row in zip(totals, rows.tolist(), strict=True)]
        heapq.heapify(heap)
        got: dict[int, int] = {}
        chosen: list[int] = []
        while heap and len(chosen) < count and heap[0] < barrier:
            row = heap[0][1]
            chosen.append(row)
            got[row] = pods = got.get(row, 0) + 1
            if not all(one.place(row) for one in followed):
                break
            total, safe = ahead.step(row, pods, got)
            if not safe:
                break
            if total == NO_TOTAL:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (-total, row))
        return chosen

    def _front(self, count: int) -> tuple[Rows, tuple[int, int]]:
        """Return the best ``count`` rows, and the (-total, row) of the best of the rest.

        Rows with nominated pods are among the rest: they are filtered twice, so not looked ahead.
        """
        evaluation = self.evaluation
        total = evaluation.total
        nominated = evaluation.feasibility.nominated.rows
        if nominated:
            total = total.copy()
            total[nominated] = NO_TOTAL
        best = int(total.max())
        if best == NO_TOTAL:
            return np.empty(0, dtype=np.intp), (1, 0)
        rows = np.flatnonzero(total == best)
        if len(rows) < count:
            rows = self._several_totals(total, count)
        front, rest = rows[:count], rows[count:]
        barrier = self._barrier(total, front, rest)
        for row in nominated:
            own = int(evaluation.total[row])
            if own != NO_TOTAL:
                barrier = min(barrier, (-own, row))
        return front, barrier

    def _several_totals(self, total: Scores, count: int) -> Rows:
        """Return the best rows, best first, lower rows first among equals; all of the last total."""
        if count < len(total):
            least = int(np.partition(total, len(total) - count)[len(total) - count])
        else:
            least = NO_TOTAL
        rows = np.flatnonzero(total >= max(least, NO_TOTAL + 1))
        return rows[np.argsort(-total[rows], kind="stable")]

    def _barrier(self, total: Scores, front: Rows, rest: Rows) -> tuple[int, int]:
        if len(rest):
            return -int(total[rest[0]]), int(rest[0])
        lower = np.where(total < int(total[front[-1]]), total, NO_TOTAL)
        row = int(lower.argmax())
        return (-int(lower[row]), row) if lower[row] != NO_TOTAL else (1, 0)


class Rotation:
    """Where the search for feasible nodes starts, when not all of them are scored (S6)."""

    def __init__(self) -> None:
        self.start = 0

    def take(self, order: Rows, feasible: Rows, wanted: int) -> tuple[Rows, int]:
        """Return the first ``wanted`` feasible rows from the start on, and how many nodes that took."""
        start = self.start % len(order)
        rotated = np.concatenate([order[start:], order[:start]])
        fits = np.zeros(int(order.max()) + 1, dtype=np.bool_)
        fits[feasible] = True
        places = np.flatnonzero(fits[rotated])[:wanted]
        processed = int(places[-1]) + 1 if len(places) == wanted else len(order)
        self.advance(processed, len(order))
        return rotated[places], processed

    def advance(self, processed: int, num_all_nodes: int) -> None:
        """Return the next search starts after the nodes looked at."""
        self.start = (self.start + processed) % max(num_all_nodes, 1)
