"""Read the claims of pods, and the classes, bindings and owners of claims and volumes.

Rules: ``component-helpers/storage`` of Kubernetes v1.36. The claims of a pod are found once per pod
class. The name of an ephemeral volume's claim has the pod's name in it, so a class with ephemeral
volumes has only one pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from podsched.api.ephemeral_volumes import ephemeral_claim_name
from podsched.api.owners import controller_of
from podsched.api.storage_classes import CLASS_ANNOTATION
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.plugins.pods import once_per_class
from podsched.v1 import objects_pb2 as v1

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
CLASS: Final = "StorageClass"

ANN_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
ANN_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
ANN_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
FILESYSTEM: Final = "Filesystem"

_NO_CLAIMS: Final[tuple[PodClaim, ...]] = ()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim that a pod mounts; ``ephemeral``: it is that of an ephemeral volume of the pod."""

    name: str
    ephemeral: bool = False


@once_per_class
def pod_claims(pod: PodInfo) -> tuple[PodClaim, ...]:
    """Return the claims in the order of the pod's volumes, with repetitions."""
    return claims_of(pod.cls.volumes, pod.name)


def claims_of(volumes: Sequence[v1.Volume], pod_name: str) -> tuple[PodClaim, ...]:
    """Return the claims that a pod of this name mounts with these volumes."""
    if not volumes:
        return _NO_CLAIMS
    found = []
    for volume in volumes:
        if volume.HasField("persistent_volume_claim"):
            found.append(PodClaim(volume.persistent_volume_claim.claim_name))
        elif volume.HasField("ephemeral"):
            found.append(PodClaim(ephemeral_claim_name(pod_name, volume), ephemeral=True))
    return tuple(found)


def claim_keys(pod: PodInfo) -> list[tuple[str, str]]:
    """Return namespace and name of the claims that a pod mounts."""
    return [(pod.namespace, claim.name) for claim in pod_claims(pod)]


def claim_events(actions: ActionType, *, ephemeral: bool = True) -> ClusterEventWithHint:
    """Register for changes of the claims that a pod mounts; they help only this pod.

    ``ephemeral=False`` leaves out the claims of ephemeral volumes.
    """

    def hint(
        pod: PodInfo, old: v1.PersistentVolumeClaim | None, new: v1.PersistentVolumeClaim | None
    ) -> QueueingHint:
        if new is None or new.metadata.namespace != pod.namespace:
            return QueueingHint.SKIP
        mine = (c.name for c in pod_claims(pod) if ephemeral or not c.ephemeral)
        return QueueingHint.of(new.metadata.name in mine)

    return ClusterEventWithHint.on(
        Resource.PERSISTENT_VOLUME_CLAIM, actions, hint, index=_waiting_by_claim
    )


def _waiting_by_claim() -> KeyedIndex:
    """Return an index of the waiting pods by the claims that they mount."""
    return KeyedIndex(
        claim_keys,
        lambda old, new: [(c.metadata.namespace, c.metadata.name) for c in (new or old,)],
    )


def get_claim(cluster: ClusterView, namespace: str, name: str) -> v1.PersistentVolumeClaim | None:
    """Return the stored claim; None if there is none."""
    return cast(v1.PersistentVolumeClaim | None, cluster.get(CLAIM, namespace, name))


def not_found(kind: str, name: str) -> str:
    """Return the API's message for a missing object; ``kind`` in lower case."""
    return f'{kind} "{name}" not found'


def controller_uid(claim: v1.PersistentVolumeClaim) -> str | None:
    """Return the uid of the controlling owner; None if there is none."""
    owner = controller_of(claim.metadata)
    return None if owner is None else owner.uid


def not_owner(pod: PodInfo, claim_name: str) -> str:
    """Return the message for an ephemeral volume whose claim the pod does not own."""
    claim = f"{pod.namespace}/{claim_name}"
    return f"PVC {claim} was not created for pod {pod.key} (pod is not owner)"


def class_of(item: v1.PersistentVolumeClaim | v1.PersistentVolume) -> str:
    """Return the name of the storage class of a claim or volume, "" if it has none."""
    return item.metadata.annotations.get(CLASS_ANNOTATION, item.spec.storage_class_name)


def is_fully_bound(claim: v1.PersistentVolumeClaim) -> bool:
    """Return whether the volume controller has completed the binding of the claim."""
    return bool(claim.spec.volume_name) and ANN_BIND_COMPLETED in claim.metadata.annotations


def refers_to(ref: tuple[str, str, str], claim: v1.PersistentVolumeClaim) -> bool:
    """Return whether a volume's claimRef names this claim: the volume is bound or pre-bound to it.

    ``ref``: namespace, name and uid; a pre-bound volume may have no uid there.
    """
    meta, (namespace, name, uid) = claim.metadata, ref
    return name == meta.name and namespace == meta.namespace and uid in ("", meta.uid)


def get_volume(cluster: ClusterView, name: str) -> v1.PersistentVolume | None:
    """Return the stored volume; None if there is none."""
    return cast(v1.PersistentVolume | None, cluster.get(VOLUME, "", name))


def get_class(cluster: ClusterView, name: str) -> v1.StorageClass | None:
    """Return the storage class; None if there is none."""
    return cast(v1.StorageClass | None, cluster.get(CLASS, "", name))
