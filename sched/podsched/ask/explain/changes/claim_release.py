"""Take a pod that goes out of its ResourceClaims, as Kubernetes' controllers do.

Source: pkg/controller/resourceclaim and the garbage collector of Kubernetes v1.36.
"""

from __future__ import annotations

from typing import Final

from podsched.api.device_claims import is_claim_for, known_claim_names, released
from podsched.cache.objects import ClusterState
from podsched.cache.trial import Trial
from podsched.framework.pods import PodInfo

_CLAIM: Final = "ResourceClaim"


def release_claims(
    pod: PodInfo, cluster: ClusterState, changes: Trial, *, keep: bool = False
) -> None:
    """Remove a pod from the consumers of its claims; without a consumer a claim has no devices.

    ``keep``: claims that were made for it stay, without devices; otherwise they are deleted.
    """
    assumed = cluster.assumed(_CLAIM)
    for name in _claims_of(pod, cluster):
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


def _claims_of(pod: PodInfo, cluster: ClusterState) -> list[str]:
    """Return the names of a pod's claims; the one for its extended resources may be assumed."""
    found = list(known_claim_names(pod.pod))
    if any("/" in resource for resource in pod.cls.requests):
        claims = (*cluster.list(_CLAIM, pod.namespace), *cluster.assumed(_CLAIM).assumed())
        found += [of.metadata.name for of in claims if is_claim_for(pod.pod, of)]
    return list(dict.fromkeys(found))
