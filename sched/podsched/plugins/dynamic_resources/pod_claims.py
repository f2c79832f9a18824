"""The ResourceClaims of a pod: their names, and whether the pod may use them.

Source: component-helpers ``resourceclaim`` of Kubernetes v1.36.
"""

from __future__ import annotations

from typing import Final

from podsched.api import device_claims
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.plugins.pods import once_per_class
from podsched.v1 import objects_pb2 as v1

CLAIM: Final = "ResourceClaim"
CLASS: Final = "DeviceClass"
SLICE: Final = "ResourceSlice"
RULE: Final = "DeviceTaintRule"


class ClaimUnusableError(Exception):
    """A claim does not exist or cannot be used; the text says why."""


@once_per_class
def has_claims(pod: PodInfo) -> bool:
    """Return whether the pod refers to claims or to templates of claims."""
    # ``bare``, because this is called for every class; building the whole spec takes 5 µs more.
    return bool(pod.cls.spec_parts.bare.resource_claims)


@once_per_class
def claim_names(pod: PodInfo) -> tuple[str | None, ...]:
    """Return the names of the pod's claims in order; None for one that is not created yet."""
    # The class may remember what its pod's status says: no two pods with claims share a class.
    names = device_claims.claim_names(pod.pod) if has_claims(pod) else ()
    return tuple(name for _, name in names)


@once_per_class
def _generated_names(pod: PodInfo) -> frozenset[str]:
    """Return the names of the claims that were made from templates."""
    # As in ``claim_names``.
    statuses = pod.pod.status.resource_claim_statuses
    return frozenset(status.resource_claim_name for status in statuses)


def member_uids(pod: PodInfo, cluster: ClusterView) -> set[str]:
    """Return the uids of the members of the pod's PodGroup; without one, the pod's own."""
    return {pod.uid, *(other.uid for other in (cluster.members(pod.group) if pod.group else ()))}


def own_consumer(pod: PodInfo) -> dict[str, str]:
    """Return the reference to a pod as a consumer of claims."""
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def consumer_of(pod: PodInfo, name: str, cluster: ClusterView) -> dict[str, str]:
    """Return the consumer for which a claim is reserved when the pod uses it.

    It is the pod's PodGroup if the group has the claim, too, else the pod.
    """
    group_name = pod.pod.spec.scheduling_group.pod_group_name
    group: v1.PodGroup | None = None
    if group_name:
        group = cluster.get("PodGroup", pod.namespace, group_name)
    if group is not None and group.spec.resource_claims:
        for ref, claim_name in device_claims.claim_names(pod.pod):
            if claim_name == name and device_claims.is_for_group(ref, group):
                of_group = {"apiGroup": device_claims.GROUPS, "resource": "podgroups"}
                return {**of_group, "name": group_name, "uid": group.metadata.uid}
    return own_consumer(pod)


def usable_claims(pod: PodInfo, cluster: ClusterView) -> list[v1.ResourceClaim]:
    """Return the pod's stored claims. Raises ClaimUnusableError."""
    generated = _generated_names(pod)
    found: dict[str, v1.ResourceClaim] = {}
    for name in claim_names(pod):
        if name is None:
            raise ClaimUnusableError(f'pod "{pod.key}": ResourceClaim not created yet')
        claim = cluster.get(CLAIM, pod.namespace, name)
        if claim is None:
            raise ClaimUnusableError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.HasField("deletion_timestamp"):
            raise ClaimUnusableError(f'resourceclaim "{name}" is being deleted')
        if name in generated and not device_claims.is_own_claim(pod.pod, claim):
            raise ClaimUnusableError(
                f"ResourceClaim {pod.namespace}/{name} was not created for Pod {pod.key} "
                "(Pod is not owner)"
            )
        found[name] = claim
    return list(found.values())
