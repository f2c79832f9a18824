"""Find the ids of one cloud's disks that pods attach.

Rule: kube-scheduler v1.16 ``predicates.MaxPDVolumeCountChecker.filterVolumes``: a pod's own disks
count by their ids, its claims by those of their volumes. A claim whose volume is not known counts
as one of its own, if its storage class is the cloud's; a claim that is missing does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodClass, PodInfo
from podsched.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    claim_class,
    get_claim,
    get_class,
    get_volume,
    pod_claims,
)
from podsched.v1 import objects_pb2 as v1

#: The kinds that decide what a claim counts.
KINDS: Final = (CLAIM, VOLUME, CLASS)
#: Begins the ids of claims without a volume, so that no real one is equal to them.
_UNBOUND: Final = "\0"


@dataclass(frozen=True, slots=True)
class Disk:
    """A cloud's disks: where volumes have them, and the provisioner that makes them."""

    field: str
    id_field: str
    provisioner: str

    def id_of(self, source: v1.Volume | v1.PersistentVolumeSpec) -> str | None:
        """Return the disk's id; None for another kind of volume."""
        if not source.HasField(self.field):
            return None
        return str(getattr(getattr(source, self.field), self.id_field))

    def inline(self, cls: PodClass) -> frozenset[str]:
        """Return the ids of the disks that pods of the class mount without a claim."""
        if not cls.spec.volumes:
            return frozenset()
        found = (self.id_of(volume) for volume in cls.spec.volumes)
        return frozenset(name for name in found if name is not None)


@dataclass(frozen=True, slots=True)
class DiskReferences:
    """Counts volumes that may be such disks, the same one as often as it is used."""

    disk: Disk

    def counts(self, pod: PodInfo) -> int:
        """Return the number of the pod's claims and own disks."""
        if not pod.cls.spec.volumes:
            return 0
        return len(pod_claims(pod)) + len(self.disk.inline(pod.cls))


class CountedVolumes:
    """Resolves pods' volumes to ids, each claim once until an object changes.

    It reads the cluster; a pickled copy is a table of all claims at the time of pickling.
    """

    def __init__(self, disk: Disk, cluster: ClusterView) -> None:
        self._disk = disk
        self._cluster: ClusterView | None = cluster
        self._versions: tuple[int, ...] = ()
        self._claims: dict[tuple[str, str], str | None] = {}

    def __getstate__(self) -> tuple[Any, ...]:
        self.refresh()
        if self._cluster is not None:
            for claim in self._cluster.list(CLAIM):
                self._of_claim(claim.metadata.namespace, claim.metadata.name)
        return self._disk, self._claims

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._disk, self._claims = state
        self._cluster, self._versions = None, ()

    def refresh(self) -> None:
        """Drop all results if claims, volumes or classes have changed since."""
        if self._cluster is None:
            return
        versions = tuple(self._cluster.version(kind) for kind in KINDS)
        if versions != self._versions:
            self._versions = versions
            self._claims.clear()

    def of(self, pod: PodInfo) -> Iterator[str]:
        """Yield the ids of the pod's disks. Raises ValueError for a claim without a name."""
        yield from self._disk.inline(pod.cls)
        for mine in pod_claims(pod):
            if not mine.name:
                raise ValueError("PersistentVolumeClaim had no name")
            volume = self._of_claim(pod.namespace, mine.name)
            if volume is not None:
                yield volume

    def _of_claim(self, namespace: str, name: str) -> str | None:
        key = (namespace, name)
        if key not in self._claims and self._cluster is not None:
            claim = get_claim(self._cluster, namespace, name)
            self._claims[key] = None if claim is None else self._behind(claim, self._cluster)
        return self._claims.get(key)

    def _behind(self, claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> str | None:
        bound = claim.spec.volume_name
        volume = get_volume(cluster, bound) if bound else None
        if volume is not None:
            return self._disk.id_of(volume.spec)
        storage_class = get_class(cluster, claim_class(claim))
        if storage_class is None or storage_class.provisioner != self._disk.provisioner:
            return None
        return f"{_UNBOUND}{claim.metadata.namespace}/{claim.metadata.name}"
