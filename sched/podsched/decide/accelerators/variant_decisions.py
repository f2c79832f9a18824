"""Decide for pods that differ little from pods with an evaluation; see ``variants``.

    new key --variant key known--> Variants.select --certain--> row
       |                                '--not certain--.
       '------ variant key not known -------------------+--> its own evaluation --> learn

A key that comes again gets its own evaluation: refreshing an evaluation costs only the changed
rows, whereas deciding a variant costs a pass over whole columns each time.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import ClassVar, Final

import numpy as np

from podsched.decide.accelerator import Batch
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.incremental import Evaluations
from podsched.decide.accelerators.selection import Selector
from podsched.decide.accelerators.variants import Variants
from podsched.decide.decision import Decided, Decision, KeptDetails
from podsched.decide.keys import PlacementKey
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.trial import Trial

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


class VariantDecisions:
    """Decides for variants; each new evaluation is where later variants start from."""

    name: ClassVar[str] = "variants"

    def __init__(self, evaluations: Evaluations, cluster: ClusterView) -> None:
        self._evaluations = evaluations
        self._keys = evaluations.keys
        self._cluster = cluster
        self._index = VariantIndex()

    def of(self, pod: PodInfo, key: PlacementKey) -> Variants | None:
        """Return the ``Variants`` that can decide a pod of a new key without an evaluation."""
        if key in self._evaluations:
            return None
        return self._index.of(key, self._keys.variant_key(pod, key))

    def is_ready(self, pod: PodInfo, key: PlacementKey) -> bool:
        return self.of(pod, key) is not None

    def learn(self, pod: PodInfo, key: PlacementKey, selector: Selector) -> None:
        """Keep what variants share with an evaluation that was just refreshed for a pod."""
        self._index.learn(
            self._keys.variant_key(pod, key),
            selector.evaluation,
            pod,
            self._evaluations.most,
            reserves=selector.reserves(pod),
        )

    def clear(self) -> None:
        """Forget everything."""
        self._index.clear()

    def try_(self, batch: Batch) -> Decided | None:
        """Decide for the first pods without evaluations, if the decisions certainly stay the same.

        Several pods of one key are left to an evaluation, which pays off for them.
        """
        variants, runtime = self.of(batch.pods[0].info, batch.key), batch.runtime
        if variants is None:
            return None
        # Compute all keys before the first pod is assumed. Which pods share a key does not change
        # meanwhile (``Decider.decide``), and computing keys again after each pod would cost as much
        # as deciding.
        found: dict[PlacementKey, QueuedPodInfo] = {}
        keys, last = self._keys.known(), None
        for queued in batch.pods:
            key = self._keys.key_now(queued.info, keys)
            if key in found or self.of(queued.info, key) is not variants:
                # Two equal pods in a row: end before the first, so that one evaluation decides
                # both.
                if key == last:
                    del found[key]
                break
            found[key], last = queued, key
        decisions: list[Decision] = []
        kept: KeptDetails | None = None
        for key, queued in found.items():
            wanted = batch.details and not decisions
            decision, kept_now = self._decide(batch.trial, variants, queued, details=wanted)
            if decision is None:
                break
            kept = kept or kept_now
            self._index.note_decided(key)
            decisions.append(decision)
            if batch.should_stop():
                break
        if not decisions:
            return None
        rows = self._cluster.nodes.size * len(decisions)
        runtime.meter.count_rows(rows, all_of_class=True)
        runtime.meter.evaluated(variants.cost, len(decisions), failed=False)
        return Decided(decisions, True, variants.cost.phases, kept)

    def _decide(
        self, trial: Trial, variants: Variants, queued: QueuedPodInfo, *, details: bool
    ) -> tuple[Decision | None, KeptDetails | None]:
        """Decide a pod without its own evaluation, if the decision is certain to be the same."""
        pod = queued.info
        choice = variants.select(pod, all_totals=details)
        if choice is None:
            return None, None
        kept = None
        # Before the pod is assumed: rows are scored again. A failure costs only the details.
        if details:
            with contextlib.suppress(PluginFailure):
                began, found = time.monotonic(), variants.details(pod, choice)
                kept = KeptDetails(0, found, time.monotonic() - began)
        node_name = self._cluster.nodes.names[choice.row]
        trial.assume(pod, node_name)
        decision = Decision(
            queued,
            choice.state,
            node_name,
            total=variants.total(choice),
            feasible=choice.feasible,
            evaluated=int(np.count_nonzero(self._cluster.nodes.alive)),
        )
        return decision, kept
