"""Create and delete the claims for extended resources.

    Reserve      reserve_extended()    assumes the claim; from now on its devices are in use
    PreBind      writes()              creates the claim, allocates it, names it in the pod's status
                 seen()                PENDING until the informer shows the allocation
    Unreserve    drop(), delete()      withdraws the assumption and deletes the claim
    PostFilter   discard()             deletes a claim of an earlier attempt

A claim is never used for a second attempt: it may not suit the new node, and its devices may be
gone. So a pod that has a claim of an earlier attempt is not bound before that claim is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podsched.api import codec
from podsched.api.device_claims import CLAIM_FINALIZER
from podsched.api.objects import copy_of, timestamp
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, ObjectDeletion, ObjectPatch
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.plugins.dynamic_resources.extended_claims import ExtendedClaim, names_for
from podsched.plugins.dynamic_resources.in_use import DevicesInUse
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.plugins.dynamic_resources.reservation import DOUBT, allocated_for
from podsched.v1 import objects_pb2 as v1


@dataclass(slots=True)
class ExtendedReservation:
    """A claim that is assumed to exist, and the ``ExtendedClaim`` that it was made from.

    ``is_planned``: it may have been created. ``is_sent``: it may have been allocated. ``is_seen``:
    the informer has shown its allocation. ``dropped_at``: the time of the first ``drop``, 0.0
    before it; ``was_there``: whether the informer had the claim then.
    """

    assumed: v1.ResourceClaim
    made_of: ExtendedClaim
    is_planned: bool = False
    is_sent: bool = False
    is_seen: bool = False
    dropped_at: float = 0.0
    was_there: bool = False

    @property
    def name(self) -> tuple[str, str]:
        return self.assumed.metadata.namespace, self.assumed.metadata.name

    def writes(
        self, pod: PodInfo, in_use: DevicesInUse, now: float
    ) -> tuple[tuple[v1.ResourceClaim, ...], tuple[ObjectPatch, ...]]:
        """Return the object to create, and then the patches to write.

        ``now``: Unix time in seconds. Raises LookupError if another claim has got a device.
        """
        if in_use.given_twice(self.assumed) is not None:
            raise LookupError("a device for extended resources is allocated to another claim")
        namespace, name = self.name
        new = copy_of(self.assumed)
        new.ClearField("status")
        new.metadata.finalizers.append(CLAIM_FINALIZER)
        status = copy_of(self.assumed.status)
        status.allocation.allocation_timestamp.CopyFrom(timestamp(now, whole=True))
        of_pod = v1.PodExtendedResourceClaimStatus(resource_claim_name=name)
        of_pod.request_mappings.extend(self.made_of.mappings)
        patches = (
            ObjectPatch(CLAIM, namespace, name, {"status": codec.write(status)}),
            ObjectPatch(
                "Pod",
                pod.namespace,
                pod.name,
                {"status": {"extendedResourceClaimStatus": codec.write(of_pod)}},
                uid=pod.uid,
            ),
        )
        self.is_planned = True
        return () if self.is_sent else (new,), patches

    def created(self) -> None:
        """Note that the claim was created, so that its allocation is written next."""
        self.is_sent = True

    def seen(self, cluster: ClusterView) -> tuple[Status, list[v1.ResourceClaim]]:
        """Return whether the informer has shown the allocation, and if it has the claim."""
        found: v1.ResourceClaim | None = cluster.get(CLAIM, *self.name)
        if found is not None and found.status.HasField("allocation"):
            self.is_seen = True
            return SUCCESS, [found]
        if self.is_seen:
            return error(f"resourceclaim {self.name[1]} is gone"), []
        return Status(Code.PENDING, (f"resourceclaim {self.name[1]} is not seen yet",)), []

    def drop(self, cluster: ClusterView, now: float) -> bool:
        """Withdraw the assumption; return False if it must stay for now.

        A claim that may be allocated keeps its devices until it is deleted, or for some time if the
        informer does not show it. ``now``: in seconds, of the same clock in all calls.
        """
        if self.is_sent:
            self.dropped_at = self.dropped_at or now
            is_there = cluster.get(CLAIM, *self.name) is not None
            is_gone, self.was_there = self.was_there and not is_there, is_there
            if not is_gone and now - self.dropped_at < DOUBT:
                return False
        cluster.assumed(CLAIM).restore(*self.name)
        return True


def reserve_extended(
    pod: PodInfo, made_of: ExtendedClaim, allocation: v1.AllocationResult, cluster: ClusterView
) -> ExtendedReservation:
    """Assume that a claim exists, allocated and reserved for the pod."""
    assumed = cluster.assumed(CLAIM)
    name = next(free for free in names_for(pod) if assumed.get(pod.namespace, free) is None)
    claim = allocated_for(pod, made_of.new(pod, name), allocation)
    assumed.assume(claim, lambda found: found.status.HasField("allocation"), is_new=True)
    return ExtendedReservation(claim, made_of)


def discard(state: CycleState, found: Sequence[v1.ResourceClaim]) -> bool:
    """Delete the claims that were found for a pod; return whether there are any."""
    known = {deletion.name for deletion in state.deletions}
    for meta in (claim.metadata for claim in found):
        if meta.name not in known:
            delete(state, meta.namespace, meta.name, meta.uid)
    return bool(found)


def delete(state: CycleState, namespace: str, name: str, uid: str = "") -> None:
    """Request that a claim is deleted; without its finalizer, that also frees its devices."""
    no_finalizers = {"metadata": {"finalizers": None}}
    state.patches += (ObjectPatch(CLAIM, namespace, name, no_finalizers, uid=uid),)
    state.deletions += (ObjectDeletion(CLAIM, namespace, name, uid),)
