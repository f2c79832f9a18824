"""Choose which pods are decided as variants: those of a new key with a known variant key.

    new key --variant key known--> Variants.select --certain--> row
       |                                '--not certain--.
       '------ variant key not known -------------------+--> its own evaluation --> learn

A key that comes again gets its own evaluation: refreshing an evaluation costs only the changed
rows, whereas deciding a variant costs a pass over whole columns each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from podsched.decide.accelerators.variants import Variants
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.framework.pods import PodInfo

#: Max keys remembered that were decided as variants.
MAX_DECIDED: Final = 1024


class VariantIndex:
    """Variants by variant key (``Projections.variant_key``), and the keys they were used for."""

    def __init__(self) -> None:
        self._variants: OrderedDict[Hashable, Variants] = OrderedDict()
        self._decided: OrderedDict[Hashable, None] = OrderedDict()

    def of(self, key: Hashable, variant_key: Hashable) -> Variants | None:
        """Return the variants that can decide a pod of this key, or None."""
        found = None if key in self._decided else self._variants.get(variant_key)
        if found is not None:
            self._variants.move_to_end(variant_key)
        return found

    def note_decided(self, key: Hashable) -> None:
        """Note that a pod of this key was decided as a variant."""
        self._decided[key] = None
        if len(self._decided) > MAX_DECIDED:
            self._decided.popitem(last=False)

    def learn(
        self,
        variant_key: Hashable,
        evaluation: ClassEvaluation,
        pod: PodInfo,
        most: int,
        *,
        reserves: bool = False,
    ) -> None:
        """Take the shared part of variants from an evaluation that was just refreshed for a pod.

        ``most``: max number of entries; each holds the evaluation and a few arrays of all rows.
        ``reserves``: see ``Variants.of``.
        """
        found = None if variant_key is None else Variants.of(evaluation, pod, reserves=reserves)
        if found is None:
            self._variants.pop(variant_key, None)
            return
        self._variants[variant_key] = found
        self._variants.move_to_end(variant_key)
        while len(self._variants) > most:
            self._variants.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._variants.clear()
