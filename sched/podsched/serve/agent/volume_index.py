"""Indexes claims and volumes for the volume controller, so that it need not scan all of them."""

from __future__ import annotations

from typing import Final

from podsched.api import quantity
from podsched.api.objects import PersistentVolume, PersistentVolumeClaim
from podsched.lib.groups import Grouped

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


class VolumeIndex:
    """The index; the key of a claim is its namespace/name."""

    def __init__(self) -> None:
        #: Keys of the claims that name a volume.
        self.claims_of = Grouped[str, str, None]()
        #: Keys of a class's claims whose binding is not complete.
        self.unbound = Grouped[str, str, None]()
        #: Names of the volumes whose claimRef names a claim.
        self.volumes_for = Grouped[str, str, None]()
        #: A class's available volumes, with their sizes in bytes.
        self.available = Grouped[str, str, int]()

    def put_claim(self, key: str, claim: PersistentVolumeClaim | None) -> None:
        """Set the current version of a claim; None: deleted."""
        volume = unbound = None
        if claim is not None:
            volume = claim.spec.volume_name or None
            if BIND_COMPLETED not in claim.metadata.annotations:
                unbound = claim.spec.storage_class_name
        self.claims_of.move(key, volume, None)
        self.unbound.move(key, unbound, None)

    def put_volume(self, name: str, volume: PersistentVolume | None) -> None:
        """Set the current version of a volume; None: deleted."""
        claim, available, size = None, None, 0
        if volume is not None and volume.spec.HasField("claim_ref"):
            claim = f"{volume.spec.claim_ref.namespace}/{volume.spec.claim_ref.name}"
        elif volume is not None and is_available(volume):
            available, size = volume.spec.storage_class_name, size_of(volume)
        self.volumes_for.move(name, claim, None)
        self.available.move(name, available, size)


def is_available(volume: PersistentVolume) -> bool:
    """Return whether a volume is available to any claim."""
    return volume.status.phase == "Available" and not volume.spec.HasField("claim_ref")


def size_of(volume: PersistentVolume) -> int:
    """Return a volume's capacity in bytes; -1, too small for any claim, if it is malformed."""
    try:
        return quantity.value(volume.spec.capacity.get("storage", "0"))
    except quantity.QuantityError:
        return -1
