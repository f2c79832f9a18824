"""Keys of pods that get the same decision, by profile; valid while nothing changes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from podsched.decide.evaluation.projections import (
    CurrentProjections,
    EvaluationKey,
    Projections,
    StampedCluster,
)
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodClass, PodInfo

#: The profile's name, and the key in it.
PlacementKey = tuple[str, EvaluationKey]


class Keys:
    """The keys of the pods of all profiles."""

    def __init__(self, profiles: Mapping[str, ProfileRuntime], cluster: StampedCluster) -> None:
        self._cluster = cluster
        self._projections = {n: Projections(r, cluster) for n, r in profiles.items()}
        self._known: dict[PodClass, PlacementKey] = {}
        self._current = CurrentProjections()

    def projections(self, scheduler_name: str) -> Projections:
        """Return the projections of a profile."""
        return self._projections[scheduler_name]

    def key(self, pod: PodInfo) -> PlacementKey:
        """Return a key that is equal for pods that get the same decision, while nothing changes."""
        return self.key_now(pod, self.known())

    def known(self) -> dict[PodClass, PlacementKey]:
        """Return the keys computed since the last change in the cluster; for ``key_now``."""
        if self._current.catch_up(self._cluster):
            self._known.clear()
        return self._known

    def key_now(self, pod: PodInfo, known: dict[PodClass, PlacementKey]) -> PlacementKey:
        """Return a pod's key, given that nothing has changed since the keys in ``known``."""
        found = known.get(pod.cls)
        if found is None:
            name = pod.cls.scheduler_name
            # A shape belongs to one profile: the scheduler's name is a part of it.
            found = known[pod.cls] = (name, self._projections[name].key(pod, self._current))
        return found

    def may_be_equal(self, one: PodInfo, other: PodInfo) -> bool:
        """Return False where the classes of two pods of a profile show that their keys differ."""
        return self._projections[one.cls.scheduler_name].may_be_equal(one, other)

    def variant_key(self, pod: PodInfo, key: PlacementKey) -> Hashable:
        """Return a key that is equal for variants of each other; None if the pod has none."""
        name, own = key
        found = self._projections[name].variant_key(pod, own)
        return None if found is None else (name, found)
