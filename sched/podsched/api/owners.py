"""Owners and finalizers of objects."""

from __future__ import annotations

from typing import Final

from podsched.api.kinds import KINDS, Kind
from podsched.api.objects import (
    AnyObject,
    DaemonSet,
    Deployment,
    Job,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

#: In the spec of a namespace that may have content.
KUBERNETES_FINALIZER: Final = "kubernetes"
#: Of an owner that waits until the objects that it owns are gone.
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
#: Of an owner that waits until the objects that it owned no longer refer to it.
ORPHAN_FINALIZER: Final = "orphan"
#: Stay whatever they name as their owner.
KEPT_KINDS: Final = frozenset(kind.name for kind in KINDS.values() if kind.kept)
#: Workloads that own pods. podsched stores them and has no controllers that create their pods.
SCALED_KINDS: Final = tuple(kind.name for kind in KINDS.values() if "scale" in kind.subresources)
#: Kinds that a controller makes pods of.
CONTROLLED_KINDS: Final = (*SCALED_KINDS, "DaemonSet", "Job", "CronJob")


def is_left_alone(item: AnyObject) -> bool:
    """Return whether a workload needs pods but no controller has ever processed it.

    Kubernetes' own controllers can do so, over the REST API.
    """
    if isinstance(item, Job):
        return not item.status.HasField("start_time") and not item.status.conditions
    observing = Deployment | DaemonSet | ReplicaSet | StatefulSet | ReplicationController
    return isinstance(item, observing) and item.status.observed_generation == 0


def add_controlling_pod(metadata: ObjectMeta, pod: Pod) -> None:
    """Make a pod the controller of an object; a foreground deletion of the pod waits for it."""
    metadata.owner_references.add(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def owner_kind(reference: OwnerReference) -> Kind | None:
    """Return the kind of an owner; None if it is not stored here, as custom resources."""
    kind = KINDS.get(reference.kind)
    group = reference.api_version.rpartition("/")[0]
    return kind if kind is not None and kind.group == group else None
