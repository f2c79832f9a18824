"""The register of kinds: what each is called, whether it has a namespace, and its message.

Everything that treats all kinds alike (server, client, command line) reads it from here; a new
kind is one more line below, its message, and its member of ``Object``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from podsched.api import objects as o
from podsched.v1.api_pb2 import Object


class UnknownKindError(LookupError):
    """No kind goes by this name; the caller's mistake."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'the server doesn\'t have a resource type "{name}"')


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    name: str
    plural: str
    api_version: str
    namespaced: bool
    message: type[Any]
    oneof_field: str
    short_names: tuple[str, ...] = ()
    has_status: bool = True

    @property
    def group(self) -> str:
        """The API group, "" for the core one."""
        return self.api_version.rpartition("/")[0]

    def new(self) -> o.AnyObject:
        """Return an empty object of this kind."""
        return cast(o.AnyObject, self.message())


def _kind(
    message: type[Any],
    plural: str,
    api_version: str,
    oneof_field: str,
    *short_names: str,
    cluster_scoped: bool = False,
) -> Kind:
    return Kind(
        name=message.DESCRIPTOR.name,
        plural=plural,
        api_version=api_version,
        namespaced=not cluster_scoped,
        message=message,
        oneof_field=oneof_field,
        short_names=short_names,
        has_status="status" in message.DESCRIPTOR.fields_by_name,
    )


_SCHEDULING, _POLICY, _APPS = "scheduling.k8s.io/v1", "policy/v1", "apps/v1"
_STORAGE, _COORDINATION = "storage.k8s.io/v1", "coordination.k8s.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"

_ALL = (
    _kind(o.Pod, "pods", "v1", "pod", "po"),
    _kind(o.Node, "nodes", "v1", "node", "no", cluster_scoped=True),
    _kind(o.Namespace, "namespaces", "v1", "namespace", "ns", cluster_scoped=True),
    _kind(
        o.PriorityClass, "priorityclasses", _SCHEDULING, "priority_class", "pc", cluster_scoped=True
    ),
    _kind(o.PodDisruptionBudget, "poddisruptionbudgets", _POLICY, "pod_disruption_budget", "pdb"),
    _kind(o.Service, "services", "v1", "service", "svc"),
    _kind(o.ReplicaSet, "replicasets", _APPS, "replica_set", "rs"),
    _kind(o.StatefulSet, "statefulsets", _APPS, "stateful_set", "sts"),
    _kind(o.ReplicationController, "replicationcontrollers", "v1", "replication_controller", "rc"),
    _kind(
        o.PersistentVolume,
        "persistentvolumes",
        "v1",
        "persistent_volume",
        "pv",
        cluster_scoped=True,
    ),
    _kind(
        o.PersistentVolumeClaim, "persistentvolumeclaims", "v1", "persistent_volume_claim", "pvc"
    ),
    _kind(o.StorageClass, "storageclasses", _STORAGE, "storage_class", "sc", cluster_scoped=True),
    _kind(o.CSINode, "csinodes", _STORAGE, "csi_node", cluster_scoped=True),
    _kind(o.CSIDriver, "csidrivers", _STORAGE, "csi_driver", cluster_scoped=True),
    _kind(o.CSIStorageCapacity, "csistoragecapacities", _STORAGE, "csi_storage_capacity"),
    _kind(
        o.VolumeAttachment, "volumeattachments", _STORAGE, "volume_attachment", cluster_scoped=True
    ),
    _kind(o.Event, "events", "v1", "event", "ev"),
    _kind(o.Lease, "leases", _COORDINATION, "lease"),
    _kind(o.Role, "roles", _RBAC, "role"),
    _kind(o.ClusterRole, "clusterroles", _RBAC, "cluster_role", cluster_scoped=True),
    _kind(o.RoleBinding, "rolebindings", _RBAC, "role_binding"),
    _kind(
        o.ClusterRoleBinding,
        "clusterrolebindings",
        _RBAC,
        "cluster_role_binding",
        cluster_scoped=True,
    ),
    _kind(o.ConfigMap, "configmaps", "v1", "config_map", "cm"),
    _kind(o.ResourceQuota, "resourcequotas", "v1", "resource_quota", "quota"),
    _kind(o.RuntimeClass, "runtimeclasses", "node.k8s.io/v1", "runtime_class", cluster_scoped=True),
    _kind(o.LimitRange, "limitranges", "v1", "limit_range", "limits"),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""Every kind by its name, in the order of the ``Object`` message."""
#: What a scheduler watches, its controllers included, in one stream.
WATCHED_KINDS = (
    "Lease",
    "Namespace",
    "Node",
    "Service",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "PodDisruptionBudget",
    "Pod",
)

_BY_MESSAGE: dict[type[Any], Kind] = {kind.message: kind for kind in _ALL}
_BY_ANY_NAME: dict[str, Kind] = {
    alias: kind for kind in _ALL for alias in (kind.name.lower(), kind.plural, *kind.short_names)
}


def kind_of(message: o.AnyObject) -> Kind:
    """Return the kind of an object. Raises UnknownKindError for a message that is not an object."""
    try:
        return _BY_MESSAGE[type(message)]
    except KeyError:
        raise UnknownKindError(type(message).__name__) from None


def find_kind(name: str) -> Kind:
    """Return the kind called "Pod", "pod", "pods", "po" or "pods.v1"/"leases.coordination.k8s.io".

    Raises UnknownKindError.
    """
    found = KINDS.get(name) or _BY_ANY_NAME.get(name.lower())
    if found is None and "." in name:
        plural, _, group = name.lower().partition(".")
        candidate = _BY_ANY_NAME.get(plural)
        if candidate is not None and group in (candidate.group, candidate.api_version):
            found = candidate
    if found is None:
        raise UnknownKindError(name)
    return found


def wrap(message: o.AnyObject) -> Object:
    """Return the object as the member of ``Object`` that is its own (copied)."""
    wrapped = Object()
    put(message, wrapped)
    return wrapped


def put(message: o.AnyObject, into: Object) -> None:
    """Make an object the member of an ``Object`` that is its own (copied)."""
    getattr(into, kind_of(message).oneof_field).CopyFrom(message)


def unwrap(wrapped: Object) -> o.AnyObject:
    """Return the object inside (not copied). Raises ValueError when no member is set."""
    member = wrapped.WhichOneof("object")
    if member is None:
        raise ValueError("the Object is empty: exactly one member must be set")
    return cast(o.AnyObject, getattr(wrapped, member))
