"""Choose the best row for NodeResourcesFit and NodeResourcesBalancedAllocation in one loop.

It is used for pods that differ only in requests: all other plugins return the same results for them
(``decide.accelerators.variants``). The loop must be compiled (``loops``), and both plugins must
read only cpu and memory, which is the default. The plugins are called as usual for pods that
request other resources, and if a node's amounts are not exact in float64 (``node_amounts``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podsched.api.resources import CPU, MEMORY, PODS
from podsched.framework.lookahead import JointBest
from podsched.framework.nodes import Bools, JournaledColumns
from podsched.framework.plugin import Plugin
from podsched.framework.pods import PodClass
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from podsched.plugins.node_resources.loops import ChooseLoop, Floats, choose_loop
from podsched.plugins.node_resources.node_amounts import SharedAmounts, exact_amounts

_NO_TOTALS: Floats = np.zeros(0)


class JointChoice:
    """Implements ``framework.lookahead.JointChoice`` with the compiled loop."""

    def __init__(self, loop: ChooseLoop, fit_weight: int, balance_weight: int) -> None:
        self._loop = loop
        self._weights = float(fit_weight), float(balance_weight)
        self._amounts = SharedAmounts()
        self._totals: Floats = _NO_TOTALS

    @classmethod
    def of(
        cls,
        fit: Plugin,
        filters: Mapping[str, object],
        scores: Mapping[str, tuple[object, int]],
    ) -> JointChoice | None:
        """Return a joint choice if ``fit`` is the only filter and only the two plugins score.

        Otherwise return None. ``fit`` must be plain (``NodeResourcesFit.is_plain``).
        """
        loop, balanced = choose_loop(), NodeResourcesBalancedAllocation
        if loop is None or scores.keys() != {fit.name, balanced.name}:
            return None
        (one, fit_weight), (other, balance_weight) = scores[fit.name], scores[balanced.name]
        if filters != {fit.name: fit} or one is not fit:
            return None
        if not (isinstance(other, balanced) and other.is_plain):
            return None
        return cls(loop, fit_weight, balance_weight)

    @staticmethod
    def base(size: int, fits: Bools | None, total: Scores | None) -> Floats:
        """Return the totals of all other plugins, shape ``(size,)``; -1 where one of them rejects.

        ``fits`` is None if they reject no row, ``total`` is None if they score all rows the same.
        """
        base = np.zeros(size) if total is None else total.astype(np.float64)
        if fits is not None:
            base[~fits] = -1.0
        return base

    def best(self, cls: PodClass, nodes: JournaledColumns, base: Floats) -> JointBest | None:
        """Return the best row for a class; None if the plugins have to be called instead."""
        requests, live = cls.requests, self._amounts.of(nodes)
        requested = exact_amounts(requests)
        counted = exact_amounts(cls.amounts.scored)
        # NodeResourcesBalancedAllocation skips a pod that requests nothing.
        if not live.exact or requested is None or counted is None or not any(requested):
            return None
        if any(amount and name not in (CPU, MEMORY, PODS) for name, amount in requests.items()):
            return None
        if len(self._totals) != len(base):
            self._totals = np.empty(len(base))
        cpu, memory = requested
        # Filter does not compare a resource of which the pod requests 0: the pod fits even if the
        # resource is overcommitted.
        row, total, feasible = self._loop(
            live.allocatable, live.nonzero, live.used, live.balance, live.room, base,
            float(counted[0]), float(counted[1]), float(cpu), float(memory),
            float(cpu or -np.inf), float(memory or -np.inf), *self._weights, self._totals,
        )  # fmt: skip
        return JointBest(row, int(total), feasible) if feasible else None

    def feasible(self) -> Rows:
        """Return the rows that were feasible for the last class."""
        return np.flatnonzero(self._totals >= 0.0)
