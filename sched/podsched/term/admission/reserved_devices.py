"""The devices that a unit is promised: which it would get later, and what keeps them from others.

While a start is planned, the claims of pods that have ended by then have no devices any more. The
devices of other reservations are those of claims that exist in the trial alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from podsched.api.objects import ResourceClaim
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.term.admission.devices import CLAIM
from podsched.v1 import objects_pb2 as v1

#: Max promised devices of a unit: they are kept in an annotation.
MOST_DEVICES: Final = 1_000


class PromisedDevice(NamedTuple):
    """A device, or a share of it; ``capacity``: what the share consumes, "" for a whole device."""

    driver: str
    pool: str
    device: str
    share: str = ""
    capacity: tuple[tuple[str, str], ...] = ()


def taken_by(cluster: ClusterView, pods: Iterable[PodInfo]) -> tuple[PromisedDevice, ...]:
    """Return the devices that are assumed to be allocated for pods."""
    uids = {pod.uid for pod in pods}
    found = []
    for claim in cluster.assumed(CLAIM).assumed():
        if uids.isdisjoint(consumer.uid for consumer in claim.status.reserved_for):
            continue
        for of in claim.status.allocation.devices.results:
            if not of.admin_access:
                capacity = tuple(sorted(of.consumed_capacity.items()))
                found.append(PromisedDevice(of.driver, of.pool, of.device, of.share_id, capacity))
    return tuple(sorted(found))


def placeholder(key: str, devices: Iterable[PromisedDevice]) -> ResourceClaim:
    """Return a claim that has the devices of a unit, by its key."""
    claim = ResourceClaim()
    claim.metadata.namespace, _, name = key.partition("/")
    claim.metadata.name = f"reserved:{name}"  # No claim that is stored has such a name.
    for one in devices:
        result = claim.status.allocation.devices.results.add(
            driver=one.driver, pool=one.pool, device=one.device
        )
        if one.share:
            result.share_id = one.share
            result.consumed_capacity.update(one.capacity)
    return claim


def may_use_devices(pod: PodInfo) -> bool:
    """Whether a pod has claims, or asks for resources that devices may provide."""
    return bool(pod.cls.spec.resource_claims) or any("/" in name for name in pod.cls.requests)


def given_back(cluster: ClusterView, gone: Collection[PodInfo]) -> Iterator[ResourceClaim]:
    """Yield the claims of pods as they are once these pods are gone.

    Those are among them whose pods are gone already, and that are still allocated.
    """
    uids = {pod.uid for pod in gone}
    for claim in cluster.list(CLAIM):
        if claim.status.reserved_for and all(
            one.uid in uids or not _exists(cluster, claim.metadata.namespace, one)
            for one in claim.status.reserved_for
        ):
            freed = ResourceClaim()
            freed.CopyFrom(claim)
            freed.ClearField("status")
            yield freed


def _exists(
    cluster: ClusterView, namespace: str, consumer: v1.ResourceClaimConsumerReference
) -> bool:
    if consumer.resource != "pods":
        return True
    pod: v1.Pod | None = cluster.get("Pod", namespace, consumer.name)
    return pod is not None and pod.metadata.uid == consumer.uid
