"""The scores of feasible nodes, per plugin."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

import numpy as np

from podsched.ask.explain.fitting import Fitting
from podsched.decide.evaluation.scoring import NodeScores, run_pre_score, run_score
from podsched.v1.scheduling_pb2 import NodeScore

#: Nodes of which the scores are told.
MAX_SCORES: Final = 5


class Choosing:
    """The scores of the feasible nodes, the best first."""

    def __init__(self, fitting: Fitting) -> None:
        """Score them. Raises PluginFailure."""
        rows = fitting.feasible
        nodes = fitting.cluster.columns
        run_pre_score(fitting.runtime, fitting.state, fitting.pod, fitting.cluster, rows)
        self._scores: NodeScores = run_score(
            fitting.runtime, fitting.state, fitting.pod, nodes, rows
        )
        self._weights = {named.name: named.weight for named in fitting.runtime.score}
        names = nodes.names
        self._names = [names[row] for row in rows.tolist()]

    @property
    def tied(self) -> int:
        """How many nodes share the best score."""
        return int((self._scores.total == self._scores.total.max(initial=0)).sum())

    def best(self, chosen: str = "") -> list[NodeScore]:
        """Return the best nodes' scores, equal ones by name, but first those of the chosen one."""
        total = self._scores.total
        if len(total) > MAX_SCORES:
            least = np.partition(total, -MAX_SCORES)[-MAX_SCORES]
            places: Iterable[int] = np.flatnonzero(total >= least).tolist()
        else:
            places = range(len(total))
        first = heapq.nsmallest(MAX_SCORES, places, lambda at: (-total[at], self._names[at]))
        if chosen in self._names:
            at = self._names.index(chosen)
            first = [at, *(other for other in first if other != at)]
        return [self._score(at) for at in first[:MAX_SCORES]]

    def all(self) -> list[NodeScore]:
        """Return the scores of all feasible nodes."""
        return [self._score(at) for at in range(len(self._names))]

    def of(self, name: str) -> NodeScore:
        """Return one feasible node's scores."""
        return self._score(self._names.index(name))

    def _score(self, at: int) -> NodeScore:
        total = self._scores.total
        found = NodeScore(node=self._names[at], total=int(total[at]))
        found.rank = 1 + int((total > total[at]).sum())
        for plugin, scores in self._scores.plugins.items():
            found.plugins.add(
                plugin=plugin, score=int(scores[at]), weight=self._weights.get(plugin, 1)
            )
        return found
