"""The devices of promised starts: which ones a unit gets later, and claims that keep them free.

A start is planned in a trial. There, the claims of pods that will have ended are not allocated, and
claims that exist only in the trial have the devices of other reservations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from podsched.api.device_claims import claim_names
from podsched.api.extended_resources import classes_by_resource
from podsched.api.objects import ResourceClaim, copy_of
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.term.admission.devices import CLAIM
from podsched.v1 import objects_pb2 as v1

#: Max promised devices of a unit: they are kept in an annotation.
MOST_DEVICES: Final = 1_000


class PromisedDevice(NamedTuple):
    """A device, or a share of it.

    ``share``: the share's id, "" for a whole device. ``capacity``: names and amounts of the
    capacity that the share consumes.
    """

    driver: str
    pool: str
    device: str
    share: str = ""
    capacity: tuple[tuple[str, str], ...] = ()


def assumed_devices(cluster: ClusterView, pods: Iterable[PodInfo]) -> tuple[PromisedDevice, ...]:
    """Return the devices of the assumed allocations whose claims are reserved for these pods."""
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


def asked_devices(cluster: ClusterView, pods: Collection[PodInfo]) -> int:
    """Return how many devices pods ask for, by claims or as extended resources of DeviceClasses."""
    classes = classes_by_resource(cluster.list("DeviceClass"))
    count = sum(
        number for pod in pods for name, number in pod.cls.requests.items() if name in classes
    )
    names = {(pod.namespace, name) for pod in pods for _, name in claim_names(pod.pod)}
    for namespace, name in names:
        claim = None if name is None else cluster.get(CLAIM, namespace, name)
        requests = () if claim is None else claim.spec.devices.requests
        count += sum(one.exactly.count or 1 for one in requests)
    return count


def placeholder_claim(key: str, devices: Iterable[tuple[Any, ...]]) -> ResourceClaim:
    """Return a claim to which devices promised to a unit are allocated, as ``PromisedDevice``."""
    claim = ResourceClaim()
    claim.metadata.namespace, _, name = key.partition("/")
    claim.metadata.name = f"reserved:{name}"  # No claim that is stored has such a name.
    for driver, pool, device, share, capacity in devices:
        results = claim.status.allocation.devices.results
        result = results.add(driver=driver, pool=pool, device=device)
        if share:
            result.share_id = share
            result.consumed_capacity.update(capacity)
    return claim


def may_use_devices(pod: PodInfo) -> bool:
    """Whether a pod has claims, or requests extended resources, which devices may provide."""
    return bool(pod.cls.spec.resource_claims) or any("/" in name for name in pod.cls.requests)


def deallocated_claims(cluster: ClusterView, gone: Collection[PodInfo]) -> Iterator[ResourceClaim]:
    """Yield, without their allocation, the claims that are free once the pods ``gone`` have ended.

    This includes claims that are still allocated although their pods have been deleted.
    """
    uids = {pod.uid for pod in gone}
    for claim in cluster.list(CLAIM):
        if claim.status.reserved_for and all(
            one.uid in uids or not _exists(cluster, claim.metadata.namespace, one)
            for one in claim.status.reserved_for
        ):
            yield copy_of(claim, ("status",))


def _exists(
    cluster: ClusterView, namespace: str, consumer: v1.ResourceClaimConsumerReference
) -> bool:
    if consumer.resource != "pods":
        return True
    pod: v1.Pod | None = cluster.get("Pod", namespace, consumer.name)
    return pod is not None and pod.metadata.uid == consumer.uid
