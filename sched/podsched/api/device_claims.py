"""ResourceClaims: their limits, which ones a pod uses, how templates make them, admin access."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Final

from podsched.api import objects as o
from podsched.api.metadata_defaulting import generated_name
from podsched.api.owners import follow_template

#: Limits of Kubernetes' API; what is beyond is not filled in, because validation refuses it.
MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_DEVICES: Final = 128
MOST_CONSUMERS: Final = 256

#: Keeps a claim with an allocation until it is deallocated.
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
#: The annotation of a generated claim: its name in spec.resourceClaims of the pod.
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"

#: Max characters of the names of pod and claim in the name of a generated claim.
_LONGEST_BASE: Final = 57

#: The API group of PodGroups.
GROUPS: Final = "scheduling.k8s.io"
#: The label, "true", of namespaces whose claims may have admin access.
ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"


def admin_request(item: o.ResourceClaim | o.ResourceClaimTemplate) -> str:
    """Return the path at which a claim or template asks for admin access, "" if it does not."""
    spec = item.spec.spec if isinstance(item, o.ResourceClaimTemplate) else item.spec
    for index, request in enumerate(spec.devices.requests):
        if request.exactly.admin_access:
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def admin_result(claim: o.ResourceClaim) -> str:
    """Return the path at which the allocation of a claim has admin access, "" if it has none."""
    for index, result in enumerate(claim.status.allocation.devices.results):
        if result.admin_access:
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""


def exclusive_devices(claim: o.ResourceClaim) -> Iterator[tuple[str, str, str]]:
    """Yield driver, pool and name of the devices that are allocated to this claim alone.

    Not those of which it has a share, and not those that it may only look at (adminAccess).
    """
    for result in claim.status.allocation.devices.results:
        if not result.share_id and not result.admin_access:
            yield result.driver, result.pool, result.device


def newest_slices(slices: Collection[o.ResourceSlice]) -> Iterator[o.ResourceSlice]:
    """Yield the slices of each pool's newest generation, by driver and name."""
    newest: dict[tuple[str, str], int] = {}
    for piece in slices:
        pool = (piece.spec.driver, piece.spec.pool.name)
        newest[pool] = max(newest.get(pool, 0), piece.spec.pool.generation)
    for piece in sorted(slices, key=lambda each: (each.spec.driver, each.metadata.name)):
        if piece.spec.pool.generation == newest[piece.spec.driver, piece.spec.pool.name]:
            yield piece


def claim_names(pod: o.Pod) -> Iterator[tuple[o.PodResourceClaim, str | None]]:
    """Yield the claims of a pod in order, with their names; None for one that is not created yet.

    Those are left out of which the pod's status says that no claim is needed.
    """
    generated = {status.name: status for status in pod.status.resource_claim_statuses}
    for ref in pod.spec.resource_claims:
        if ref.resource_claim_name:
            yield ref, ref.resource_claim_name
        elif ref.name not in generated:
            yield ref, None
        elif name := generated[ref.name].resource_claim_name:
            yield ref, name


def known_claim_names(pod: o.Pod) -> Iterator[str]:
    """Yield the names of a pod's claims that exist; one for its extended resources is last."""
    for _, name in claim_names(pod):
        if name is not None:
            yield name
    if extended := pod.status.extended_resource_claim_status.resource_claim_name:
        yield extended


def is_claim_for(pod: o.Pod, claim: o.ResourceClaim | o.PersistentVolumeClaim) -> bool:
    """Return whether a claim was generated for the pod."""
    owners = claim.metadata.owner_references
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in owners)


def is_own_claim(pod: o.Pod, claim: o.ResourceClaim) -> bool:
    """Return whether a claim was generated for the pod or its PodGroup."""
    group = pod.spec.scheduling_group.pod_group_name
    return is_claim_for(pod, claim) or any(
        group
        and owner.controller
        and (owner.kind, owner.name) == ("PodGroup", group)
        and owner.api_version.startswith(f"{GROUPS}/")
        for owner in claim.metadata.owner_references
    )


def is_of_group(pod: o.Pod, consumer: o.ResourceClaimConsumerReference) -> bool:
    """Return whether a consumer of a claim is the pod's PodGroup."""
    group = pod.spec.scheduling_group.pod_group_name
    named = (consumer.api_group, consumer.resource, consumer.name)
    return bool(group) and named == (GROUPS, "podgroups", group)


def is_reserved_for(pod: o.Pod, claim: o.ResourceClaim) -> bool:
    """Return whether a claim is reserved for the pod or its PodGroup."""
    return any(
        consumer.uid == pod.metadata.uid or is_of_group(pod, consumer)
        for consumer in claim.status.reserved_for
    )


def is_for_group(ref: o.PodResourceClaim, group: o.PodGroup) -> bool:
    """Return whether a claim of a pod is one of its PodGroup, and so reserved for the group."""
    wanted = ref.SerializeToString(deterministic=True)
    return any(
        claim.SerializeToString(deterministic=True) == wanted
        for claim in group.spec.resource_claims
    )


def released(claim: o.ResourceClaim, uid: str) -> o.ResourceClaim | None:
    """Return a claim without one of its consumers, and without devices if it was the last.

    Returns None if the object of this uid is not a consumer of the claim.
    """
    left = [consumer for consumer in claim.status.reserved_for if consumer.uid != uid]
    if len(left) == len(claim.status.reserved_for):
        return None
    changed = o.copy_of(claim)
    del changed.status.reserved_for[:]
    changed.status.reserved_for.extend(left)
    if not left:
        changed.ClearField("status")
        finalizers = [name for name in claim.metadata.finalizers if name != CLAIM_FINALIZER]
        changed.metadata.finalizers[:] = finalizers
    return changed


def claim_of_template(
    owner: o.Pod | o.PodGroup,
    ref: o.PodResourceClaim,
    template: o.ResourceClaimTemplate,
    exists: Callable[[str], bool],
) -> o.ResourceClaim:
    """Return the claim that is to be generated for a claim of a pod or PodGroup, without a uid.

    ``exists`` tells whether the owner's namespace has a claim of a name. The name depends only on
    this, on the owner's uid, and on the names of owner and claim.
    """
    claim = o.ResourceClaim(spec=template.spec.spec)
    follow_template(claim.metadata, template.spec.metadata, owner)
    base = _base_name(owner.metadata.name, ref.name)
    names = (
        generated_name(base, f"{owner.metadata.uid}/{ref.name}/{attempt}")
        for attempt in itertools.count()
    )
    claim.metadata.name = next(name for name in names if not exists(name))
    claim.metadata.annotations[POD_CLAIM_NAME] = ref.name
    return claim


def _base_name(owner: str, claim: str) -> str:
    """Return the part of a generated name that tells the owner and its claim."""
    whole = f"{owner}-{claim}"
    if len(whole) > _LONGEST_BASE:
        cut_owner = owner[: len(owner) * _LONGEST_BASE // len(whole)]
        whole = f"{cut_owner}-{claim[: len(claim) * _LONGEST_BASE // len(whole)]}"
    return f"{whole}-"
