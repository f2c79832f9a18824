"""How much longer pods waited that had waited as long: the product-limit estimate of quantiles.

Pods that wait still are not left out, which would make waits look short: each counts as one that
was there to be bound until now, and was not (right-censored). Source: Kaplan and Meier,
*Nonparametric Estimation from Incomplete Observations*, JASA 53 (1958).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that pods went on waiting from an age on; ``over``: whether they were bound then."""

    seconds: Times
    over: npt.NDArray[np.bool_]

    @property
    def bound(self) -> int:
        """Return how many were bound."""
        return int(self.over.sum())

    def quantiles(self, probabilities: Sequence[float]) -> list[float]:
        """Return seconds by probability; infinity where too few were bound to say."""
        order = np.argsort(self.seconds, kind="stable")
        over = self.over[order]
        left = np.arange(len(order), 0, -1)
        bound = 1 - np.cumprod(np.where(over, 1 - 1 / left, 1.0))
        places = [np.flatnonzero(bound >= p - 1e-9) for p in probabilities]
        seconds = self.seconds[order]
        return [float(seconds[place[0]]) if len(place) else math.inf for place in places]


def waits_from(began: Times, bound: Times, ended: Times, age: float, now: float) -> Waits:
    """Return what came of pods that waited longer than ``age`` seconds, in the order given.

    ``bound``, ``ended``: NaN for what has not happened by ``now``.
    """
    left = np.where(np.isnan(bound), np.where(np.isnan(ended), now, ended), bound)
    rest = left - began - age
    counted = rest > 0
    return Waits(rest[counted], ~np.isnan(bound[counted]))
