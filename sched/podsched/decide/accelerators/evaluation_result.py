"""Results of plugins on some rows, computed in another process, as values that can be pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podsched.decide.evaluation.filtering import renumbered
from podsched.framework.nodes import Bools
from podsched.framework.verdicts import Reason, Rows, Scores, Verdicts


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Verdicts and raw scores for some rows, by plugin; plugins that are missing were not asked.

    ``verdicts`` and ``fits`` (no filter that ran rejects the row) are parallel to ``rows``. ``raw``
    has scores only for rows that fit.
    """

    rows: Rows
    verdicts: dict[str, Verdicts]
    fits: Bools
    raw: dict[str, Scores]

    def only(self, kept: Bools) -> EvaluationResult:
        """Return the result for some of the rows; ``kept`` is parallel to ``rows``."""
        # ``raw`` is parallel to the rows that fit, not to ``rows``.
        of_fitting = kept[self.fits]
        return EvaluationResult(
            self.rows[kept],
            {name: Verdicts(v.bits[kept], v.reasons) for name, v in self.verdicts.items()},
            self.fits[kept],
            {name: raw[of_fitting] for name, raw in self.raw.items()},
        )


def merge(results: Sequence[EvaluationResult]) -> EvaluationResult:
    """Return the results of several parts as one. There is at least one."""
    first = results[0]
    return EvaluationResult(
        np.concatenate([result.rows for result in results]),
        {name: _merge_verdicts([r.verdicts[name] for r in results]) for name in first.verdicts},
        np.concatenate([result.fits for result in results]),
        {name: np.concatenate([result.raw[name] for result in results]) for name in first.raw},
    )


def _merge_verdicts(parts: Sequence[Verdicts]) -> Verdicts:
    reasons: list[Reason] = []
    bits = [renumbered(part.bits, part.reasons, reasons) for part in parts]
    return Verdicts(np.concatenate(bits), tuple(reasons))
