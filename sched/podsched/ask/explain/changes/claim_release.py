"""Take a pod that goes out of its ResourceClaims, as Kubernetes' controllers do.

The claims of its ephemeral volumes are deleted.

Source: pkg/controller/resourceclaim and the garbage collector of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from podsched.api.device_claims import is_claim_for, known_claim_names, released
from podsched.api.ephemeral_volumes import ephemeral_claim_name, ephemeral_volumes
from podsched.api.owners import controller_of
from podsched.cache.objects import ClusterState
from podsched.cache.trial import Trial
from podsched.framework.pods import PodInfo

_CLAIM: Final = "ResourceClaim"
_VOLUME_CLAIM: Final = "PersistentVolumeClaim"


#: Names of claims by the uid of the pod for which they were made.
ClaimsMade = Mapping[str, Sequence[str]]


def release_claims(
    pod: PodInfo,
    cluster: ClusterState,
    changes: Trial,
    *,
    keep: bool = False,
    made: ClaimsMade | None = None,
) -> None:
    """Remove a pod from the consumers of its claims; without a consumer a claim has no devices.

    ``keep``: claims that were made for it stay, without devices; otherwise they are deleted.
    ``made``: of all pods, for callers with many pods; by default all claims are read.
    """
    assumed = cluster.assumed(_CLAIM)
    for name in _claims_of(pod, cluster, made):
        left, claim = None, assumed.get(pod.namespace, name)
        if claim is None:
            continue
        is_deleted = is_claim_for(pod.pod, claim) and not keep
        if not is_deleted and (left := released(claim, pod.uid)) is None:
            continue
        # An assumed allocation would otherwise hold until one is written.
        assumed.restore(pod.namespace, name)
        if left is None:
            changes.delete(_CLAIM, pod.namespace, name)
        else:
            changes.put(_CLAIM, left)
    if not keep:
        _delete_volume_claims(pod, cluster, changes)


def _delete_volume_claims(pod: PodInfo, cluster: ClusterState, changes: Trial) -> None:
    for volume in ephemeral_volumes(pod.pod):
        name = ephemeral_claim_name(pod.name, volume)
        claim = cluster.get(_VOLUME_CLAIM, pod.namespace, name)
        if claim is not None and is_claim_for(pod.pod, claim):
            changes.delete(_VOLUME_CLAIM, pod.namespace, name)


def claims_made(cluster: ClusterState, namespace: str | None = None) -> ClaimsMade:
    """Return the claims that were made for pods, also those that are only assumed."""
    made: dict[str, list[str]] = {}
    for claim in (*cluster.list(_CLAIM, namespace), *cluster.assumed(_CLAIM).assumed()):
        if (owner := controller_of(claim.metadata)) is not None:
            made.setdefault(owner.uid, []).append(claim.metadata.name)
    return made


def _claims_of(pod: PodInfo, cluster: ClusterState, made: ClaimsMade | None) -> list[str]:
    """Return the names of a pod's claims; the one for its extended resources may be assumed."""
    found = list(known_claim_names(pod.pod))
    if any("/" in resource for resource in pod.cls.requests):
        made = claims_made(cluster, pod.namespace) if made is None else made
        found += made.get(pod.uid, ())
    return list(dict.fromkeys(found))
