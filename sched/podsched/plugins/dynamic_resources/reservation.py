"""Allocate the claims of a pod: assume the allocations, write them, wait for the devices.

    Reserve      assume_allocation()   from now on, the devices are in use
                 join_allocation()     adds another member of the PodGroup to the consumers
    PreBind      check_not_lost()      fails if another scheduler has allocated a device meanwhile
                 claim_patches()       writes finalizer, allocation and reservation
                 device_status()       PENDING until the devices' binding conditions are true
    Unreserve    Reservation.drop()    withdraws the assumptions, unless they may be written
                 without_consumer()    removes the written reservation
    PostFilter   deallocation()        frees the devices

An assumption ends when the informer shows the claim with an allocation. If a patch was sent and its
outcome is unknown, the claim's devices stay in use for a while, so that no other claim gets them.
The pod itself may use them in its next attempt.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsched.api import codec
from podsched.api.device_claims import CLAIM_FINALIZER, is_reserved_for
from podsched.api.node_selectors import compile_node_selector
from podsched.api.objects import copy_of, timestamp
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import ObjectPatch
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.plugins.dynamic_resources.in_use import DevicesInUse
from podsched.plugins.dynamic_resources.pod_claims import CLAIM, consumer_of, own_consumer
from podsched.v1 import objects_pb2 as v1

#: Seconds for which devices stay in use if the outcome of the patch that allocates them is unknown.
DOUBT: Final = 60.0


@dataclass(slots=True)
class Reservation:
    """The names of the claims whose allocation is assumed for a pod; ``uid``: the pod's.

    ``is_sent``: their patches may be written; ``is_written``: they are. ``dropped_at``: the time of
    the first ``drop`` after a patch was sent, 0.0 before it.
    """

    namespace: str
    uid: str
    names: tuple[str, ...]
    is_sent: bool = False
    is_written: bool = False
    dropped_at: float = 0.0

    def drop(self, cluster: ClusterView, now: float) -> bool:
        """Withdraw the assumptions; return False if they must stay for now.

        Allocations that are also assumed for other members of the PodGroup stay for these. ``now``:
        in seconds, of the same clock in all calls.
        """
        if self.is_sent and not self.is_written:
            self.dropped_at = self.dropped_at or now
            # As in ``ClaimBinding.drop_doubts``, a doubt does not end in a trial.
            if cluster.open_trial is not None or now - self.dropped_at < DOUBT:
                return False
        # An assumption that is written ends when the informer shows the claim.
        if not self.is_written:
            for name in self.names:
                self._leave(name, cluster)
        return True

    def _leave(self, name: str, cluster: ClusterView) -> None:
        """Remove the pod from a claim's assumed consumers; without any, withdraw the assumption."""
        claims = cluster.assumed(CLAIM)
        assumed: v1.ResourceClaim | None = claims.get(self.namespace, name)
        consumers = () if assumed is None else assumed.status.reserved_for
        left = [consumer for consumer in consumers if consumer.uid != self.uid]
        if assumed is None or not left or assumed not in claims.assumed():
            claims.restore(self.namespace, name)
        else:
            _assume(_with_consumers(assumed, left), cluster)


def in_flight(claim: v1.ResourceClaim, cluster: ClusterView) -> v1.ResourceClaim | None:
    """Return the claim with its assumed allocation; None if it has none, or is allocated."""
    if claim.status.HasField("allocation"):
        return None
    meta = claim.metadata
    assumed = cluster.assumed(CLAIM).get(meta.namespace, meta.name)
    return assumed if assumed is not None and assumed.status.HasField("allocation") else None


def assume_allocation(
    pod: PodInfo, name: str, allocation: v1.AllocationResult, cluster: ClusterView
) -> None:
    """Assume that a claim, which must exist, is allocated and reserved for the pod."""
    claim = cluster.get(CLAIM, pod.namespace, name)
    assert claim is not None, name
    _assume(allocated_for(pod, claim, allocation), cluster)


def join_allocation(pod: PodInfo, name: str, cluster: ClusterView) -> None:
    """Assume that a claim with an assumed allocation is also reserved for the pod."""
    assumed: v1.ResourceClaim | None = cluster.assumed(CLAIM).get(pod.namespace, name)
    assert assumed is not None, name
    if not is_reserved_for(pod.pod, assumed):
        mine = v1.ResourceClaimConsumerReference(**own_consumer(pod))
        _assume(_with_consumers(assumed, [*assumed.status.reserved_for, mine]), cluster)


def _with_consumers(
    claim: v1.ResourceClaim, consumers: Iterable[v1.ResourceClaimConsumerReference]
) -> v1.ResourceClaim:
    changed = copy_of(claim)
    del changed.status.reserved_for[:]
    changed.status.reserved_for.extend(consumers)
    return changed


def _assume(claim: v1.ResourceClaim, cluster: ClusterView) -> None:
    """Assume this allocation of a claim until the stored claim is allocated or replaced."""
    uid = claim.metadata.uid

    def is_settled(found: v1.ResourceClaim) -> bool:
        return found.metadata.uid != uid or found.status.HasField("allocation")

    cluster.assumed(CLAIM).assume(claim, is_settled)


def allocated_for(
    pod: PodInfo, claim: v1.ResourceClaim, allocation: v1.AllocationResult
) -> v1.ResourceClaim:
    """Return a copy of a claim that is allocated and reserved for a pod."""
    changed = copy_of(claim)
    changed.ClearField("status")
    changed.status.allocation.CopyFrom(allocation)
    for result in changed.status.allocation.devices.results:
        if result.share_id:
            result.share_id = str(uuid.uuid4())
    changed.status.reserved_for.add(**own_consumer(pod))
    return changed


def check_not_lost(
    claims: Sequence[v1.ResourceClaim],
    reserved: Reservation | None,
    in_use: DevicesInUse,
    cluster: ClusterView,
) -> None:
    """Raise LookupError if another scheduler has allocated a device to another claim meanwhile.

    The API server would refuse the allocation, so its assumption is withdrawn.
    """
    for claim in claims:
        assumed = in_flight(claim, cluster)
        lost = None if assumed is None else in_use.given_twice(assumed)
        if lost is not None:
            name = claim.metadata.name
            cluster.assumed(CLAIM).restore(claim.metadata.namespace, name)
            if reserved is not None:
                reserved.names = tuple(other for other in reserved.names if other != name)
            raise LookupError(
                f"device {'/'.join(lost)} for resourceclaim {name} is allocated to another claim"
            )


def check_reachable(
    claims: Sequence[v1.ResourceClaim], node_name: str, cluster: ClusterView
) -> None:
    """Raise LookupError if the node does not reach the devices of an allocated claim."""
    node: v1.Node | None = cluster.get("Node", "", node_name)
    for claim in claims:
        now = in_flight(claim, cluster) or claim
        if not now.status.allocation.HasField("node_selector"):
            continue
        terms = compile_node_selector(now.status.allocation.node_selector)
        if node is None or not terms.matches(node.metadata.labels, node_name):
            raise LookupError(f"resourceclaim {claim.metadata.name} is allocated elsewhere")


def claim_patches(
    pod: PodInfo, claims: Sequence[v1.ResourceClaim], cluster: ClusterView, now: float
) -> Iterator[ObjectPatch]:
    """Yield the patches that allocate the claims and reserve them for the pod.

    A claim that is assumed for several members of a PodGroup is reserved for all of them, because
    only one of them writes the allocation. ``now``: Unix time in seconds. Raises LookupError for a
    claim that is not allocated, nor assumed to be.
    """
    for claim in claims:
        meta = claim.metadata
        if is_reserved_for(pod.pod, claim):
            continue
        consumers = [codec.write(consumer) for consumer in claim.status.reserved_for]
        mine = consumer_of(pod, meta.name, cluster)
        new = [mine]
        status: dict[str, Any] = {}
        body: dict[str, Any] = {"status": status}
        if not claim.status.HasField("allocation"):
            assumed = in_flight(claim, cluster)
            if assumed is None or not is_reserved_for(pod.pod, assumed):
                raise LookupError(f"resourceclaim {meta.name} is not allocated any more")
            allocation = copy_of(assumed.status.allocation)
            allocation.allocation_timestamp.CopyFrom(timestamp(now, whole=True))
            status["allocation"] = codec.write(allocation)
            if mine["uid"] == pod.uid:
                known = {consumer["uid"] for consumer in consumers}
                members = assumed.status.reserved_for
                new = [codec.write(member) for member in members if member.uid not in known]
        status["reservedFor"] = [*consumers, *new]
        if CLAIM_FINALIZER not in meta.finalizers:
            body["metadata"] = {"finalizers": [*meta.finalizers, CLAIM_FINALIZER]}
        yield ObjectPatch(CLAIM, meta.namespace, meta.name, body, meta.resource_version)


def deallocation(claim: v1.ResourceClaim) -> ObjectPatch:
    """Return the patch that frees the claim's devices unless the claim has changed meanwhile."""
    return _status_patch(claim, {"allocation": None, "reservedFor": None, "devices": None})


def without_consumer(claim: v1.ResourceClaim, pod: PodInfo) -> ObjectPatch:
    """Return the patch that removes the pod from the claim's consumers."""
    consumers = [codec.write(consumer) for consumer in claim.status.reserved_for]
    left = [consumer for consumer in consumers if consumer["uid"] != pod.uid]
    return _status_patch(claim, {"reservedFor": left or None})


def _status_patch(claim: v1.ResourceClaim, status: dict[str, Any]) -> ObjectPatch:
    meta = claim.metadata
    return ObjectPatch(CLAIM, meta.namespace, meta.name, {"status": status}, meta.resource_version)


def device_status(claims: Sequence[v1.ResourceClaim]) -> Status:
    """Return whether the drivers have prepared the devices that have binding conditions."""
    pending = False
    for claim in claims:
        for result in claim.status.allocation.devices.results:
            if not result.binding_conditions:
                continue
            told = _told(claim, result)
            for name in result.binding_failure_conditions:
                if failed := told.get(name):
                    message = json.dumps(failed.message, ensure_ascii=False)
                    return error(
                        f"device binding failed: claim={claim.metadata.name}, "
                        f"reason={failed.reason}, message={message}"
                    )
            pending |= not told.keys() >= set(result.binding_conditions)
    return Status(Code.PENDING, ("device binding timeout",)) if pending else SUCCESS


def _told(
    claim: v1.ResourceClaim, result: v1.DeviceRequestAllocationResult
) -> dict[str, v1.Condition]:
    """Return the conditions of a device that are true, by type."""
    key = (result.driver, result.pool, result.device, result.share_id)
    return {
        condition.type: condition
        for told in claim.status.devices
        if (told.driver, told.pool, told.device, told.share_id) == key
        for condition in told.conditions
        if condition.status == "True"
    }
