"""Create and delete the claims for extended resources.

    Reserve      reserve()      assumes the claim; from now on its devices are in use
    PreBind      writes()       creates the claim, allocates it, and names it in the pod's status
                 seen()         PENDING until the informer shows the allocation
    Unreserve    unreserve()    deletes the claim
    PostFilter   discard()      deletes a claim of an earlier attempt

A claim is never used for a second attempt: it may not suit the new node, and its devices may be
gone. So a pod that has a claim of an earlier attempt is not bound before that claim is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from podsched.api import codec
from podsched.api.device_claims import CLAIM_FINALIZER, exclusive_devices
from podsched.api.objects import copy_of, timestamp
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, ObjectDeletion, ObjectPatch
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.plugins.dynamic_resources.devices import KnownDevices
from podsched.plugins.dynamic_resources.extended_claims import ExtendedClaim, names_for
from podsched.plugins.dynamic_resources.model import DeviceID
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.plugins.dynamic_resources.reservation import DOUBT, allocated_for
from podsched.v1 import objects_pb2 as v1


@dataclass(slots=True)
class _Claim:
    """A claim that is assumed to exist, and the ``ExtendedClaim`` that it was made from.

    ``is_planned``: it may have been created. ``is_sent``: it may have been allocated. ``is_seen``:
    the informer has shown its allocation.
    """

    assumed: v1.ResourceClaim
    made_of: ExtendedClaim
    is_planned: bool = False
    is_sent: bool = False
    is_seen: bool = False
    #: For a claim in doubt: when its pod was unreserved, and whether the informer had the claim.
    dropped_at: float = 0.0
    was_there: bool = False

    @property
    def name(self) -> tuple[str, str]:
        return self.assumed.metadata.namespace, self.assumed.metadata.name


@dataclass(slots=True)
class ExtendedReservations:
    """The claims for extended resources of pods on their way to a node."""

    _devices: KnownDevices
    _by_pod: dict[str, _Claim] = field(default_factory=dict)
    #: Claims of unreserved pods that may be allocated nevertheless.
    _in_doubt: list[_Claim] = field(default_factory=list)

    def assumed(self, pod: PodInfo) -> list[v1.ResourceClaim]:
        """Return the assumed claim of the pod as a list, which is empty if there is none."""
        claim = self._by_pod.get(pod.uid)
        return [] if claim is None else [claim.assumed]

    def reserve(
        self,
        pod: PodInfo,
        made_of: ExtendedClaim,
        allocation: v1.AllocationResult,
        cluster: ClusterView,
    ) -> None:
        """Assume that a claim exists, allocated and reserved for the pod."""
        assumed = cluster.assumed(CLAIM)
        name = next(free for free in names_for(pod) if assumed.get(pod.namespace, free) is None)
        claim = allocated_for(pod, made_of.new(pod, name), allocation)
        assumed.assume(claim, lambda found: found.status.HasField("allocation"), is_new=True)
        self._by_pod[pod.uid] = _Claim(claim, made_of)

    def writes(
        self, pod: PodInfo, cluster: ClusterView, now: float
    ) -> tuple[tuple[v1.ResourceClaim, ...], tuple[ObjectPatch, ...]]:
        """Return the object to create, and then the patches to write.

        ``now``: Unix time in seconds. Raises LookupError if another claim has got a device.
        """
        claim = self._by_pod.get(pod.uid)
        if claim is None:
            return (), ()
        in_use = self._devices.in_use(cluster)
        devices = map(DeviceID._make, exclusive_devices(claim.assumed))
        if any(map(in_use.is_given_twice, devices)):
            raise LookupError("a device for extended resources is allocated to another claim")
        namespace, name = claim.name
        new = copy_of(claim.assumed)
        new.ClearField("status")
        new.metadata.finalizers.append(CLAIM_FINALIZER)
        status = copy_of(claim.assumed.status)
        status.allocation.allocation_timestamp.CopyFrom(timestamp(now, whole=True))
        of_pod = v1.PodExtendedResourceClaimStatus(resource_claim_name=name)
        of_pod.request_mappings.extend(claim.made_of.mappings)
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
        claim.is_planned = True
        return () if claim.is_sent else (new,), patches

    def created(self, pod: PodInfo) -> None:
        """Note that the claim was created, so that its allocation is written next."""
        if (claim := self._by_pod.get(pod.uid)) is not None:
            claim.is_sent = True

    def seen(self, pod: PodInfo, cluster: ClusterView) -> tuple[Status, list[v1.ResourceClaim]]:
        """Return whether the informer has shown the allocation, and the claim if there is one."""
        claim = self._by_pod.get(pod.uid)
        if claim is None:
            return SUCCESS, []
        found: v1.ResourceClaim | None = cluster.get(CLAIM, *claim.name)
        if found is not None and found.status.HasField("allocation"):
            claim.is_seen = True
            return SUCCESS, [found]
        if claim.is_seen:
            return error(f"resourceclaim {claim.name[1]} is gone"), []
        return Status(Code.PENDING, (f"resourceclaim {claim.name[1]} is not seen yet",)), []

    def bound(self, pod: PodInfo) -> None:
        """Forget the claim of a pod whose PreBind is complete."""
        self._by_pod.pop(pod.uid, None)

    def unreserve(self, state: CycleState, pod: PodInfo, cluster: ClusterView, now: float) -> None:
        """Withdraw the assumption, unless the claim may be allocated, and delete the claim.

        ``now``: in seconds, of the same clock in all calls.
        """
        claim = self._by_pod.pop(pod.uid, None)
        if claim is not None and claim.is_sent:
            claim.dropped_at = now
            self._in_doubt.append(claim)
            self.drop_doubts(cluster, now)
        elif claim is not None:
            cluster.assumed(CLAIM).restore(*claim.name)
        if claim is not None and claim.is_planned:
            _delete(state, *claim.name)
        else:
            self.discard(state, pod, cluster)

    def discard(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> bool:
        """Delete the claims that exist for the pod; return whether there are any."""
        found = self._devices.extended_claims(pod, cluster)
        known = {deletion.name for deletion in state.deletions}
        for meta in (claim.metadata for claim in found):
            if meta.name not in known:
                _delete(state, meta.namespace, meta.name, meta.uid)
        return bool(found)

    def drop_doubts(self, cluster: ClusterView, now: float) -> None:
        """Free the devices of claims that are deleted, or that the informer never showed."""
        for claim in list(self._in_doubt):
            is_there = cluster.get(CLAIM, *claim.name) is not None
            gone = claim.was_there and not is_there
            claim.was_there = is_there
            if gone or now - claim.dropped_at >= DOUBT:
                cluster.assumed(CLAIM).restore(*claim.name)
                self._in_doubt.remove(claim)


def _delete(state: CycleState, namespace: str, name: str, uid: str = "") -> None:
    """Request that a claim is deleted; without its finalizer, that also frees its devices."""
    no_finalizers = {"metadata": {"finalizers": None}}
    state.patches += (ObjectPatch(CLAIM, namespace, name, no_finalizers, uid=uid),)
    state.deletions += (ObjectDeletion(CLAIM, namespace, name, uid),)
