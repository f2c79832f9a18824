"""The volumes of a cluster by storage class, each parsed once; assumed volumes included."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from podsched.framework.assumed_objects import AssumedObjects
from podsched.framework.nodes import ClusterView
from podsched.plugins.volume_binding.candidates import KnownVolume, known_volume
from podsched.plugins.volumes.claims import VOLUME
from podsched.v1 import objects_pb2 as v1


class KnownVolumes:
    """The volumes of a cluster in the form that matching reads."""

    def __init__(self) -> None:
        self._by_class: tuple[Hashable, dict[str, dict[str, KnownVolume]]] | None = None
        #: By name, each object and what was parsed of it: unchanged volumes are not parsed again.
        self._read: dict[str, tuple[v1.PersistentVolume, KnownVolume]] = {}

    def of_class(self, cluster: ClusterView, name: str) -> Sequence[KnownVolume]:
        """Return the volumes of a storage class, assumed ones included. Raises QuantityError."""
        version = (id(cluster), cluster.version(VOLUME))
        if self._by_class is None or self._by_class[0] != version:
            self._by_class = (version, self._read_all(cluster))
        found = self._by_class[1].get(name, {})
        volumes: AssumedObjects[v1.PersistentVolume] = cluster.assumed(VOLUME)
        # An assumption changes the claim that a volume is bound to, never its class.
        changed = {
            volume.metadata.name: known_volume(volume)
            for volume in volumes.assumed()
            if volume.metadata.name in found
        }
        return list((found | changed if changed else found).values())

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
