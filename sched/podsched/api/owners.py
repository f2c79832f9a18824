"""Owners and finalizers of objects."""

from __future__ import annotations

from typing import Final

from podsched.api import objects as o
from podsched.api.kinds import KINDS, Kind, kind_of

#: In ``spec.finalizers`` of each namespace, until it is terminating and empty.
KUBERNETES_FINALIZER: Final = "kubernetes"
#: Of an owner that waits until the objects that it owns are gone.
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
#: Of an owner that waits until the objects that it owned no longer refer to it.
ORPHAN_FINALIZER: Final = "orphan"
#: Kinds whose objects the garbage collector never deletes.
KEPT_KINDS: Final = frozenset(kind.name for kind in KINDS.values() if kind.kept)
#: Workloads that own pods and are scaled.
SCALED_KINDS: Final = tuple(kind.name for kind in KINDS.values() if "scale" in kind.subresources)
#: Kinds that a controller makes pods of.
CONTROLLED_KINDS: Final = (*SCALED_KINDS, "DaemonSet", "Job", "CronJob")
#: Those of them whose pods the leader makes, unless a kube-controller-manager does.
OWN_KINDS: Final = frozenset({"ReplicaSet", "Job"})
#: Key of the Lease that leaders of kube-controller-manager hold, if not told otherwise.
CONTROLLER_MANAGER_LEASE: Final = "kube-system/kube-controller-manager"


def is_left_alone(item: o.AnyObject) -> bool:
    """Return whether a workload needs pods but no controller has ever processed it.

    Kubernetes' own controllers can do so, over the REST API.
    """
    if isinstance(item, o.Job):
        # A Job whose pods wait in a queue has no startTime yet.
        return not item.status.ByteSize()
    observing = o.Deployment | o.DaemonSet | o.ReplicaSet | o.StatefulSet | o.ReplicationController
    return isinstance(item, observing) and item.status.observed_generation == 0


def held_until(lease: o.AnyObject | None) -> float:
    """Return the Unix time until which a holder's Lease lasts, 0 if it has no holder."""
    if not isinstance(lease, o.Lease) or not lease.spec.holder_identity:
        return 0.0
    return o.seconds_of(lease.spec.renew_time) + lease.spec.lease_duration_seconds


def add_owner(metadata: o.ObjectMeta, owner: o.AnyObject) -> o.OwnerReference:
    """Make an object an owner of another; return the reference."""
    kind = kind_of(owner)
    return metadata.owner_references.add(
        api_version=kind.api_version,
        kind=kind.name,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
    )


def add_controller(metadata: o.ObjectMeta, owner: o.AnyObject) -> None:
    """Make an object the controller of another; its foreground deletion waits for that."""
    reference = add_owner(metadata, owner)
    reference.controller = reference.block_owner_deletion = True


def reference_to(item: o.AnyObject) -> o.ObjectReference:
    """Return a reference to this version of an object."""
    kind, metadata = kind_of(item), item.metadata
    return o.ObjectReference(
        api_version=kind.api_version,
        kind=kind.name,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def follow_template(metadata: o.ObjectMeta, template: o.ObjectMeta, owner: o.AnyObject) -> None:
    """Fill in the metadata of an object that is made for ``owner``, all but its name."""
    metadata.namespace = owner.metadata.namespace
    metadata.labels.update(template.labels)
    metadata.annotations.update(template.annotations)
    add_controller(metadata, owner)


def own_labels_of_job(item: o.Job) -> dict[str, str]:
    """Return the labels that only the pods of a Job have, unless it has ``manualSelector``."""
    own = {"controller-uid": item.metadata.uid, "job-name": item.metadata.name}
    return own | {f"batch.kubernetes.io/{key}": value for key, value in own.items()}


def controller_of(metadata: o.ObjectMeta) -> o.OwnerReference | None:
    """Return the reference to the controller of an object, None if there is none."""
    # A loop, since a generator for each of all pods' changes costs three times as much.
    for owner in metadata.owner_references:
        if owner.controller:
            return owner
    return None


def owner_kind(reference: o.OwnerReference) -> Kind | None:
    """Return the kind of an owner; None if it is not stored here, as custom resources."""
    kind = KINDS.get(reference.kind)
    group = reference.api_version.rpartition("/")[0]
    return kind if kind is not None and kind.group == group else None
