"""Which pods are decided on as variants of others: those met for the first time, of known kin.

    pod of a new key --kin known--> Variants.select --certain--> row
           |                              '--not certain--.
           '------------ kin not known -------------------+--> an evaluation of its own --> learn

A key that comes again gets an evaluation of its own: to keep one current costs a look at the rows
that changed, whereas a variant costs one at whole columns, each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from podsched.decide.accelerators.variants import Variants
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.framework.pods import PodInfo

#: Keys remembered that were met once.
MAX_MET: Final = 1024


class VariantIndex:
    """Variants by kin (``Projections.kin``), and the keys of the pods they were used for."""

    def __init__(self) -> None:
        self._variants: OrderedDict[Hashable, Variants] = OrderedDict()
        self._met: OrderedDict[Hashable, None] = OrderedDict()

    def of(self, key: Hashable, kin: Hashable) -> Variants | None:
        """Return what chooses for a pod of this key without an evaluation; None: nothing does."""
        found = None if key in self._met else self._variants.get(kin)
        if found is not None:
            self._variants.move_to_end(kin)
        return found

    def met(self, key: Hashable) -> None:
        """Note that a pod of this key was decided on as a variant."""
        self._met[key] = None
        if len(self._met) > MAX_MET:
            self._met.popitem(last=False)

    def learn(
        self,
        kin: Hashable,
        evaluation: ClassEvaluation,
        pod: PodInfo,
        most: int,
        *,
        reserves: bool = False,
    ) -> None:
        """Take what variants have in common from an evaluation just refreshed for a pod.

        ``most``: kins to keep, of which each has the evaluation and a few arrays of all rows;
        ``reserves``: see ``Variants.of``.
        """
        found = None if kin is None else Variants.of(evaluation, pod, reserves=reserves)
        if found is None:
            self._variants.pop(kin, None)
            return
        self._variants[kin] = found
        self._variants.move_to_end(kin)
        while len(self._variants) > most:
            self._variants.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._variants.clear()
