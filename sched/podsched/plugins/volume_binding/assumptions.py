"""Volumes and claims as the scheduler assumes them to be, until the API has newer ones.

After kube-scheduler v1.36 ``util/assumecache``: an assumed object stands in for the very object it
was derived from, so any event that replaces that object ends the assumption. Nothing is written
here; PreBind does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.framework.nodes import ClusterView
from podsched.plugins.volume_binding.candidates import KnownVolume, known_volume
from podsched.plugins.volumes.claims import CLAIM, VOLUME
from podsched.v1 import objects_pb2 as v1

#: kind, namespace, name
ObjectKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Assumed:
    """An assumed object, and the object of the API that it was derived from."""

    base: Any
    assumed: Any


class Assumptions:
    """The claims and volumes of a cluster, assumed ones in place of the API's."""

    def __init__(self) -> None:
        self._assumed: dict[ObjectKey, Assumed] = {}
        #: Changes with every assumption that is made or taken back.
        self.version = 0
        self._by_class: tuple[Any, dict[str, dict[str, KnownVolume]]] | None = None
        #: By name, volumes and what matching reads of them; unchanged volumes are not read again.
        self._read: dict[str, tuple[v1.PersistentVolume, KnownVolume]] = {}

    def __len__(self) -> int:
        return len(self._assumed)

    def assume(self, kind: str, base: Any, assumed: Any) -> None:
        """Take the object to be ``assumed`` from now on."""
        meta = base.metadata
        self._assumed[(kind, meta.namespace, meta.name)] = Assumed(base, assumed)
        self.version += 1

    def restore(self, keys: Iterable[ObjectKey]) -> None:
        """Take the objects to be as the API has them, whatever was assumed."""
        for key in keys:
            if self._assumed.pop(key, None) is not None:
                self.version += 1

    def settle(self, cluster: ClusterView, keys: Iterable[ObjectKey]) -> None:
        """Forget assumptions about objects that the API has replaced since."""
        for kind, namespace, name in keys:
            self._get(cluster, kind, namespace, name)

    def claim(
        self, cluster: ClusterView, namespace: str, name: str
    ) -> v1.PersistentVolumeClaim | None:
        """Return the claim, or what is assumed in its place."""
        found: v1.PersistentVolumeClaim | None = self._get(cluster, CLAIM, namespace, name)
        return found

    def volume(self, cluster: ClusterView, name: str) -> v1.PersistentVolume | None:
        """Return the volume, or what is assumed in its place."""
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

    def volumes_of_class(self, cluster: ClusterView, name: str) -> Sequence[KnownVolume]:
        """Return the volumes of a storage class, assumed ones included. Raises QuantityError."""
        version = (id(cluster), cluster.version(VOLUME))
        if self._by_class is None or self._by_class[0] != version:
            self._by_class = (version, self._read_all(cluster))
        found = self._by_class[1].get(name, {})
        if not self._assumed:
            return list(found.values())
        current = dict(found)
        for kind, _, volume_name in list(self._assumed):
            volume = self.volume(cluster, volume_name) if kind == VOLUME else None
            # An assumption changes the claim that a volume is bound to, never its class.
            if volume is not None and volume_name in current:
                current[volume_name] = known_volume(volume)
        return list(current.values())

    def _read_all(self, cluster: ClusterView) -> dict[str, dict[str, KnownVolume]]:
        read, known = self._read, {}
        by_class: dict[str, dict[str, KnownVolume]] = {}
        for volume in cluster.list(VOLUME):
            name = volume.metadata.name
            entry = read.get(name)
            if entry is None or entry[0] is not volume:
                entry = (volume, known_volume(volume))
            known[name] = entry
            by_class.setdefault(entry[1].storage_class, {})[name] = entry[1]
        self._read = known
        return by_class
