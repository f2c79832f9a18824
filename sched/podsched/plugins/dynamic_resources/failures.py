"""What failed in earlier attempts, because of which pods with equal specs of claims differ."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final

from podsched.framework.nodes import ClusterView
from podsched.framework.status import Code
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.plugins.dynamic_resources.reservation import device_status
from podsched.v1 import objects_pb2 as v1

#: Max failing specs of claims, and max late allocations, that are remembered.
_MOST: Final = 4096


class Failures:
    """Specs of claims that made an attempt fail, and allocations that were not prepared."""

    def __init__(self) -> None:
        #: Serialized specs of claims that made an attempt fail. The error names the claim, so pods
        #: whose claims differ only in the name do not share an evaluation then.
        self.specs: set[bytes] = set()
        #: The allocations whose binding conditions did not become true in time.
        self._late: set[Hashable] = set()

    def note_specs(self, specs: Collection[bytes]) -> None:
        """Note serialized specs of claims that made an attempt fail."""
        if len(self.specs) >= _MOST:
            self.specs.clear()
        self.specs.update(specs)

    def note_late(self, claims: Iterable[v1.ResourceClaim], cluster: ClusterView) -> None:
        """Note the allocations whose devices were not prepared in time."""
        for claim in claims:
            meta = claim.metadata
            found = cluster.get(CLAIM, meta.namespace, meta.name)
            if found is not None and device_status([found]).code is Code.PENDING:
                # Nobody asks for the allocations of claims that were released or deleted since.
                if len(self._late) >= _MOST:
                    self._late.clear()
                self._late.add(_allocation_key(found))

    def note_deallocation(self, claim: v1.ResourceClaim) -> None:
        """Forget that the devices of a claim, which is deallocated, were not prepared in time."""
        self._late.discard(_allocation_key(claim))

    def is_unprepared(self, claim: v1.ResourceClaim) -> bool:
        """Return whether preparing a device of the claim failed, or took too long."""
        status = device_status([claim])
        late = status.code is Code.PENDING and _allocation_key(claim) in self._late
        return late or status.code is Code.ERROR


def _allocation_key(claim: v1.ResourceClaim) -> Hashable:
    """Return a key that differs for each allocation of each claim."""
    return claim.metadata.uid, claim.status.allocation.SerializeToString(deterministic=True)
