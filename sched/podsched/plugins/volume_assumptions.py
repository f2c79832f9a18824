"""Volumes and claims as the scheduler assumes them to be, until the API says something newer.

After kube-scheduler v1.36 ``util/assumecache``: an assumed object stands in for the very object it
was derived from, so whatever event replaces that object ends the assumption. Non-goal: writing
anything; PreBind does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.framework.nodes import ClusterView
from podsched.plugins.volume_claims import CLAIM, VOLUME, volume_class
from podsched.v1 import objects_pb2 as v1

#: kind, namespace, name
ObjectKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is assumed of an object, and the object as it was then."""

    base: Any
    assumed: Any


class Assumptions:
    """The claims and volumes of a cluster with what is assumed of them."""

    def __init__(self) -> None:
        self._assumed: dict[ObjectKey, Assumed] = {}
        #: Changes with every assumption made or taken back.
        self.version = 0
        self._by_class: tuple[Any, dict[str, list[v1.PersistentVolume]]] | None = None

    def __len__(self) -> int:
        return len(self._assumed)

    def assume(self, kind: str, base: Any, assumed: Any) -> None:
        """From now on the object is taken to be ``assumed``."""
        meta = base.metadata
        self._assumed[(kind, meta.namespace, meta.name)] = Assumed(base, assumed)
        self.version += 1

    def restore(self, keys: Iterable[ObjectKey]) -> None:
        """The objects are again as the API has them; nothing happens where they are already."""
        for key in keys:
            if self._assumed.pop(key, None) is not None:
                self.version += 1

    def settle(self, cluster: ClusterView, keys: Iterable[ObjectKey]) -> None:
        """Forgets assumptions that the API has gone beyond."""
        for kind, namespace, name in keys:
            self._get(cluster, kind, namespace, name)

    def claim(
        self, cluster: ClusterView, namespace: str, name: str
    ) -> v1.PersistentVolumeClaim | None:
        """The claim with what is assumed of it."""
        found: v1.PersistentVolumeClaim | None = self._get(cluster, CLAIM, namespace, name)
        return found

    def volume(self, cluster: ClusterView, name: str) -> v1.PersistentVolume | None:
        """The volume with what is assumed of it."""
        found: v1.PersistentVolume | None = self._get(cluster, VOLUME, "", name)
        return found

    def _get(self, cluster: ClusterView, kind: str, namespace: str, name: str) -> Any | None:
        api = cluster.get(kind, namespace, name)
        if not self._assumed:
            return api
        key = (kind, namespace, name)
        entry = self._assumed.get(key)
        if entry is None:
            return api
        if entry.base is not api:
            del self._assumed[key]
            return api
        return entry.assumed

    def volumes_of_class(self, cluster: ClusterView, name: str) -> Sequence[v1.PersistentVolume]:
        """The volumes of a storage class, with what is assumed of them."""
        version = (id(cluster), cluster.version(VOLUME))
        if self._by_class is None or self._by_class[0] != version:
            by_class: dict[str, list[v1.PersistentVolume]] = {}
            for volume in cluster.list(VOLUME):
                by_class.setdefault(volume_class(volume), []).append(volume)
            self._by_class = (version, by_class)
        found = self._by_class[1].get(name, [])
        if not self._assumed:
            return found
        # An assumption changes who a volume is bound to, never its class.
        current = (self.volume(cluster, volume.metadata.name) for volume in found)
        return [volume for volume in current if volume is not None]
