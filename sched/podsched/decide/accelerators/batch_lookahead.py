"""Place many pods of one key between two evaluations, exactly as one after another.

Placing a pod usually changes only its own row. So the totals of the best rows with 1, 2, 3... more
pods are computed at once (``LookaheadScores``), and a heap places the pods where single evaluations
would:

    top:    row 4     90  85  79  -      totals with 0, 1, 2, 3 more pods; "-" does not fit
              row 7     90  85  80
    barrier:            87                 best total of all other rows, which do not change

    order:    4 (90), 7 (90), then 85 < 87: stop, evaluate, continue with new top rows

This is exact only while a pod changes nothing but its row, which is checked in three ways:

* ``learn`` compares the plugins' inputs before and after pods of the class were assumed. Plugins
  whose inputs *moved* read beyond the row. Each must look ahead itself (``plugin.Lookahead``) and
  tell for every pod whether its verdicts on other rows stay the same.
* A step of ``LookaheadScores`` is *safe* if it changes no other row's score. Score plugins that
  were skipped are asked again when a row is full.
* A plugin that reserves something for each pod, which the next pod must see, must look ahead past
  Reserve (``LooksPastReserve``).

Other cases are left to single evaluations: plugins that read single pods, a
percentageOfNodesToScore, and rows with nominated pods, which are filtered with these added.

Measured at 5,000 equal nodes: some 50 µs a pod in batches of 500, 140 µs one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.lookahead import LookaheadScores
from podsched.decide.accelerators.totals import NO_TOTAL
from podsched.decide.evaluation.nominated_rows import nominated_node
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.scoring import pre_score_one
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.framework.lookahead import Lookahead, LooksPastReserve
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

#: Max pods placed before a plugin reserves something for them, which takes 0.1 ms for each pod:
#: without a limit a loop was held for 9 to 12 ms.
_MOST_RESERVED = 32

LOOKAHEAD_WORDING = 'running look-ahead of plugin "{}"'
#: Comes after every (-total, row): there is no other row.
NO_BARRIER = (1, 0)


class NoEffect:
    """``framework.lookahead.Lookahead`` of a plugin that pods of the class do not affect."""

    covers_own_row = True

    def place(self, row: int) -> bool:
        return True


_NO_EFFECT = NoEffect()


@dataclass(slots=True)
class Chosen:
    """For each pod its row, the row's total, and how many rows were feasible for the pod."""

    rows: list[int] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    feasible: list[int] = field(default_factory=list)


class BatchLookahead:
    """Places batches of one key's pods; ``learn`` after each, ``place`` before the next."""

    def __init__(self, evaluation: ClassEvaluation) -> None:
        self._evaluation = evaluation
        #: The inputs after pods of the class were assumed, by plugin; None: unknown.
        self._learned: dict[str, Hashable] | None = None
        #: The plugins whose inputs changed when pods of the class were assumed.
        self._moved: frozenset[str] = frozenset()
        #: Max pods of the last batch on one row.
        self._depth = 1

    def learn(self, pod: PodInfo) -> None:
        """Note the plugins whose inputs changed when pods of the class were assumed."""
        inputs = self._evaluation.inputs
        self._learned = None
        try:
            before, now = inputs.last, inputs.now(pod)
        except PluginFailure:
            # The next refresh fails in the same way, and reports it.
            return
        # Otherwise PreFilter ended early, and some inputs are unknown.
        if len(now) == len(before):
            self._learned = dict(zip(inputs.names, now, strict=True))
            named = zip(inputs.names, before, now, strict=True)
            self._moved = frozenset(name for name, old, new in named if old != new)

    def place(self, pods: Sequence[PodInfo]) -> Chosen:
        """Return rows for as many of the first pods as look-ahead is exact for, maybe none.

        Call it after a refresh for the first pod.
        """
        lookaheads = self._lookaheads(pods[0])
        if lookaheads is None:
            return Chosen()
        # Look at the pods only now: a class without look-ahead has a round for each pod, and going
        # through all pods in each round would be quadratic.
        pods = self._independent(self._unnominated(pods))
        # For one pod the evaluation knows the best row already.
        if len(pods) < 2:
            return Chosen()
        evaluation = self._evaluation
        nominated = evaluation.feasibility.nominated.rows
        # Rows with nominated pods are filtered twice, which look-ahead does not do. So they only
        # limit how far the other rows may be used (``TopRows.barrier``).
        top = top_rows(evaluation.total, len(pods), nominated)
        if not len(top.rows):
            return Chosen()
        covered = {name for name, one in lookaheads.items() if one.covers_own_row}
        make = partial(LookaheadScores, evaluation, pods[0], top.rows, covered, self._depth)
        try:
            return self._follow(make, top, pods, list(lookaheads.values()))
        except PluginFailure:
            # A plugin failed on a row that may not be needed: let a single evaluation decide.
            return Chosen()

    def reserving(self, pod: PodInfo) -> Set[str]:
        """Return the plugins that reserve something for pods like this, which the next must see."""
        return self._evaluation.runtime.reserving(self._evaluation.state, pod)

    def stops_after(self, pod: PodInfo) -> bool:
        """Whether a plugin reserves something for this pod without looking ahead past Reserve.

        Then no other pod is placed with it. The answer is that of the last evaluation.
        """
        return any(self._look_ahead(name, pod) is None for name in self.reserving(pod))

    def _unnominated(self, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Return the leading pods without a nominated node, which would be tried first."""
        for count, pod in enumerate(pods):
            if nominated_node(self._evaluation.cluster, pod):
                return pods[:count]
        return pods

    def _independent(self, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Return the leading pods for which different things are reserved, up to a number."""
        runtime = self._evaluation.runtime
        for name in self.reserving(pods[0]) if pods else ():
            pods = pods[:_MOST_RESERVED]
            plugin = runtime.lookahead[name]
            assert isinstance(plugin, LooksPastReserve)
            pods = pods[: plugin.independent(pods)]
        return pods

    # ------------------------------------------------------------------ whether it is exact

    def _lookaheads(self, pod: PodInfo) -> dict[str, Lookahead] | None:
        """Return a Lookahead per plugin that reads beyond a pod's row; None: not exact."""
        reserving = self.reserving(pod)
        plugins = self._evaluation.runtime.lookahead
        if any(not isinstance(plugins.get(name), LooksPastReserve) for name in reserving):
            return None
        if not self._changes_own_row_only(reserving):
            return None
        found: dict[str, Lookahead] = {}
        for name in self._moved | reserving:
            ahead = self._look_ahead(name, pod)
            if ahead is None:
                return None
            found[name] = ahead
        # On a fork a plugin counts pods even if it counts none of this class (as with an empty
        # selector of a spread constraint), like kube-scheduler.
        runtime = self._evaluation.runtime
        for named in runtime.filter:
            if named.name in runtime.lookahead:
                found.setdefault(named.name, _NO_EFFECT)
        return found

    def _changes_own_row_only(self, reserving: Set[str]) -> bool:
        """Whether a pod changes its own row and, beyond it, what ``_moved`` and others read.

        ``reserving``: plugins whose inputs change in Reserve.
        """
        evaluation = self._evaluation
        if evaluation.runtime.profile.percentage_of_nodes_to_score is not None:
            return False
        if not self._is_as_learned(reserving) or _reads_pods(evaluation):
            return False
        # Rows with nominated pods are filtered with these added, which no plugin looks ahead for.
        return not (self._moved and evaluation.feasibility.nominated.rows)

    def _is_as_learned(self, reserving: Set[str]) -> bool:
        """Whether inputs that assumed pods of the class did not change are still the same."""
        inputs, learned = self._evaluation.inputs, self._learned
        if learned is None or len(inputs.last) != len(learned):
            return False
        now = zip(inputs.names, inputs.last, strict=True)
        moved = self._moved | reserving
        return all(name in moved or value == learned[name] for name, value in now)

    def _look_ahead(self, name: str, pod: PodInfo) -> Lookahead | None:
        evaluation = self._evaluation
        plugin = evaluation.runtime.lookahead.get(name)
        if plugin is None:
            return None
        state, cluster = evaluation.state, evaluation.cluster
        try:
            return guarded(name, LOOKAHEAD_WORDING, plugin.look_ahead, state, pod, cluster)
        except PluginFailure:
            return None

    # ------------------------------------------------------------------ taking rows

    def _follow(
        self,
        make: Callable[[], LookaheadScores],
        top: TopRows,
        pods: Sequence[PodInfo],
        lookaheads: Sequence[Lookahead],
    ) -> Chosen:
        """Take the best row again and again, until another row might be better."""
        # Create the scores only when needed. If each pod closes its zone to the next one they are
        # never needed, and they would take a third of the time.
        scores: LookaheadScores | None = None
        rows = top.rows
        totals = self._evaluation.total[rows].tolist()
        # Of equal totals the lowest row comes first, as in a single choice.
        heap = [(-total, row) for total, row in zip(totals, rows.tolist(), strict=True)]
        heapq.heapify(heap)
        placed: dict[int, int] = {}
        full: list[int] = []
        chosen = Chosen()
        feasible = len(self._evaluation.feasible_rows)
        while heap and len(chosen.rows) < len(pods) and heap[0] < top.barrier:
            negative, row = heap[0]
            chosen.rows.append(row)
            chosen.totals.append(-negative)
            chosen.feasible.append(feasible - len(full))
            placed[row] = count = placed.get(row, 0) + 1
            # ``place`` tells each plugin of the pod; False: its verdicts on other rows change.
            if not all(one.place(row) for one in lookaheads):
                break
            if scores is None:
                scores = make()
            # The row's total for the next pod, if this one is there, too.
            total, safe = scores.step(row, count, placed)
            if not safe:
                break
            if total == NO_TOTAL:
                # The row is full, so fewer rows are feasible for the next pod.
                heapq.heappop(heap)
                full.append(row)
                if heap and not self._stay_skipped(pods[0], full):
                    break
            else:
                heapq.heapreplace(heap, (-total, row))
        self._depth = max(placed.values(), default=1)
        return chosen

    def _stay_skipped(self, pod: PodInfo, full: Sequence[int]) -> bool:
        """Whether the skipped Score plugins are skipped without these rows, too.

        Raises PluginFailure.
        """
        evaluation = self._evaluation
        columns = evaluation.scores.columns
        skipped = [
            column.named
            for column in columns
            if not column.active
            and column.depends_on_feasible
            and not column.named.traits.skips_by_class
        ]
        if not skipped:
            return True
        left = evaluation.feasibility.feasible.copy()
        left[full] = False
        # A copy: the evaluation relies on what PreScore found for all its feasible rows.
        rows, state = np.flatnonzero(left), evaluation.state.copy()
        for named in skipped:
            pre_score_one(evaluation.runtime, named, state, pod, evaluation.cluster, rows)
        return all(named.name in state.skip_score for named in skipped)


def _reads_pods(evaluation: ClassEvaluation) -> bool:
    """Whether an active plugin reads the single pods of a node."""
    return any(
        column.active and column.named.traits.reads_pods
        for columns in (evaluation.feasibility.columns, evaluation.scores.columns)
        for column in columns
    )


class TopRows(NamedTuple):
    """The best rows, best first, and the (-total, row) of the best row that is not among them.

    For ``count`` pods at most ``count`` rows matter. The best of all other rows is the *barrier*:
    while the best top row is better than it, other rows need no look.
    """

    rows: Rows
    barrier: tuple[int, int]


def top_rows(total: Scores, count: int, excluded: Sequence[int]) -> TopRows:
    """Return the top rows for ``count`` pods; ``excluded`` rows only count for the barrier.

    Usually hundreds of rows share the best total, so the common case is one comparison over all
    rows. Only if fewer do, rows of several totals are partitioned and sorted.
    """
    left = total
    if excluded:
        left = total.copy()
        left[list(excluded)] = NO_TOTAL
    best = int(left.max())
    if best == NO_TOTAL:
        return TopRows(NO_ROWS, NO_BARRIER)
    rows = np.flatnonzero(left == best)
    if len(rows) < count:
        rows = _several_totals(left, count)
    top, rest = rows[:count], rows[count:]
    # An excluded row may be better than every top row; then look-ahead places no pod.
    others = ((-int(total[row]), row) for row in excluded if total[row] != NO_TOTAL)
    return TopRows(top, min(_barrier(left, top, rest), *others, NO_BARRIER))


def _several_totals(total: Scores, count: int) -> Rows:
    """Return the best ``count`` rows in order, and all rows that equal the last one."""
    if count < len(total):
        least = int(np.partition(total, len(total) - count)[len(total) - count])
    else:
        least = NO_TOTAL
    rows = np.flatnonzero(total >= max(least, NO_TOTAL + 1))
    # A stable sort, so that of equal totals the lowest row comes first.
    return rows[np.argsort(-total[rows], kind="stable")]


def _barrier(total: Scores, top: Rows, rest: Rows) -> tuple[int, int]:
    if len(rest):
        return -int(total[rest[0]]), int(rest[0])
    # Without a rest, no other row equals the last top row, so the best of the others is lower.
    lower = np.where(total < int(total[top[-1]]), total, NO_TOTAL)
    row = int(lower.argmax())
    return (-int(lower[row]), row) if lower[row] != NO_TOTAL else NO_BARRIER
