"""When evicted units may be admitted again (see ``endings``), and at which place in the queue.

The PodGroup has what the next leader needs: the condition Evicted, and the annotations
``podsched.io/requeue-count`` and ``podsched.io/deactivated``. For what has no PodGroup see
``places``.

Source: Kueue 0.20, pkg/controller/core/workload_controller.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from podsched.api import conditions
from podsched.config.queues import WaitForPodsReady
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.lib.backoff import exponential
from podsched.queues.objects import Workload
from podsched.queues.order import EVICTED_BY_READINESS, queue_time
from podsched.term.admission.places import Places

EVICTED: Final = "Evicted"
#: Annotation of a PodGroup: how often its pods were not ready in time.
REQUEUE_COUNT: Final = "podsched.io/requeue-count"
#: Annotation of a PodGroup: why it is not admitted until the annotation is removed.
DEACTIVATED_BY: Final = "podsched.io/deactivated"
_LATE_TOO_OFTEN: Final = (
    "The workload is deactivated: its pods were not ready in time too often. Remove the annotation "
    f"{REQUEUE_COUNT} of its PodGroup to try again"
)
_RAN_TOO_LONG: Final = (
    "The workload is deactivated: it ran for longer than its limit. Remove the annotation "
    f"{DEACTIVATED_BY} of its PodGroup to try again"
)


class Requeuing:
    """See the module. Pure; times are Unix times."""

    def __init__(self, cluster: ClusterView, settings: WaitForPodsReady | None) -> None:
        self._cluster = cluster
        self._strategy = None if settings is None else settings.requeuing_strategy
        #: Whether a unit that was not ready in time keeps its place.
        self._by_creation = self._strategy is not None and self._strategy.timestamp == "Creation"
        self.places = Places(cluster, by_creation=self._by_creation)
        """Of what has no PodGroup."""

    def count(self, key: str) -> int:
        """Return how often a unit was not ready in time."""
        group = stored_group(self._cluster, key)
        if group is None:
            return self.places.count(key)
        text = group.metadata.annotations.get(REQUEUE_COUNT, "")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    def is_too_often(self, count: int) -> bool:
        """Whether a unit that was not ready in time so often is deactivated."""
        limit = None if self._strategy is None else self._strategy.backoff_limit_count
        return limit is not None and count > limit

    def deactivated(self, key: str) -> str:
        """Return why a unit may not be admitted, whatever time has passed; "" if it may."""
        if self.is_too_often(self.count(key)):
            return _LATE_TOO_OFTEN
        group = stored_group(self._cluster, key)
        is_annotated = group is not None and group.metadata.annotations.get(DEACTIVATED_BY, "")
        return _RAN_TOO_LONG if is_annotated else ""

    def in_place(self, workload: Workload) -> Workload:
        """Return a waiting unit, queued so far when it was created, at its place in the queue."""
        reason, at = eviction_of(self._cluster, workload.key)
        if reason:
            created = workload.queued_at
            queued_at = queue_time(created, reason, at, by_creation=self._by_creation)
            workload = replace(workload, queued_at=queued_at)
        return self.places.put(workload)

    def not_before(self, key: str) -> float:
        """Return when a unit may be admitted again; 0.0 if it need not wait."""
        reason, at = eviction_of(self._cluster, key)
        if late := self.places.late_at(key):
            reason, at = EVICTED_BY_READINESS, late
        if reason != EVICTED_BY_READINESS or self._strategy is None:
            return 0.0
        return at + self.backoff(self.count(key))

    def backoff(self, count: int) -> float:
        """Return the seconds of the backoff after ``count`` evictions."""
        if self._strategy is None:
            return 0.0
        times = self._strategy.backoff_base_seconds, self._strategy.backoff_max_seconds
        return exponential(*times, count)


def eviction_of(cluster: ClusterView, key: str) -> tuple[str, float]:
    """Return the reason and the Unix time of a unit's eviction, as its PodGroup has them."""
    condition = true_condition(cluster, key, EVICTED)
    if condition is None:
        return "", 0.0
    return condition.reason, float(condition.last_transition_time.seconds)


def true_condition(cluster: ClusterView, key: str, type_: str) -> Any | None:
    """Return a condition of a unit's PodGroup, if it is True."""
    group = stored_group(cluster, key)
    return None if group is None else conditions.true_condition(group.status, type_)
