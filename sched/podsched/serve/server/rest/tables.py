"""``Table``: objects as rows of cells, with the columns that Kubernetes has for their kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from podsched.lib.ages import age
from podsched.serve.server.entries import Entry
from podsched.serve.server.rest.failures import bad_request
from podsched.serve.server.rest.pod_columns import (
    pod_ready,
    pod_restarts,
    pod_status,
    readiness_gates,
)
from podsched.serve.server.rest.resources import Resource
from podsched.serve.server.rest.views import META, content_of, partial, typed

NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_UNSET: Final = "<unset>"


class Column(NamedTuple):
    """A column: its name, and from an object and the time to its cell."""

    name: str
    cell: Callable[[Any, float], Any]
    wide: bool = False
    form: str = ""


def since(stamp: Any, now: float) -> str:
    """Return how long ago a time was."""
    return age(now - stamp.seconds - stamp.nanos / 1e9) if stamp.seconds else _UNKNOWN


def _or(value: str, otherwise: str = NONE) -> str:
    return value or otherwise


def _node_status(node: Any, _: float) -> str:
    ready = [c.status for c in node.status.conditions if c.type == "Ready"]
    text = {"True": "Ready", "": "Unknown"}.get(ready[0] if ready else "", "NotReady")
    return f"{text},SchedulingDisabled" if node.spec.unschedulable else text


_ROLE: Final = "node-role.kubernetes.io/"


def _roles(node: Any, _: float) -> str:
    roles = sorted(key[len(_ROLE) :] for key in node.metadata.labels if key.startswith(_ROLE))
    return ",".join(filter(None, roles)) or NONE


def _address(kind: str) -> Callable[[Any, float], str]:
    return lambda node, _: next((a.address for a in node.status.addresses if a.type == kind), NONE)


def _kernel(node: Any, _: float) -> str:
    info = node.status.node_info
    if not info.kernel_version:
        return _UNKNOWN
    return (
        f"{info.kernel_version} ({info.architecture})" if info.architecture else info.kernel_version
    )


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Sequence[str]) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in dict.fromkeys(modes))


def _claim(volume: Any, _: float) -> str:
    ref = volume.spec.claim_ref
    return f"{ref.namespace}/{ref.name}" if ref.name else ""


def _claim_status(claim: Any, _: float) -> str:
    return "Terminating" if claim.metadata.HasField("deletion_timestamp") else claim.status.phase


def _claim_capacity(claim: Any, _: float) -> str:
    return claim.status.capacity.get("storage", "") if claim.spec.volume_name else ""


def _claim_modes(claim: Any, _: float) -> str:
    return _modes(claim.status.access_modes) if claim.spec.volume_name else ""


def _volume_status(volume: Any, _: float) -> str:
    return "Terminating" if volume.metadata.HasField("deletion_timestamp") else volume.status.phase


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


def _ports(service: Any, _: float) -> str:
    return ",".join(f"{p.port}/{p.protocol or 'TCP'}" for p in service.spec.ports) or NONE


def _object(event: Any, _: float) -> str:
    ref = event.involved_object
    return f"{ref.kind.lower()}/{ref.name}" if ref.kind else ref.name


def _source(event: Any, _: float) -> str:
    component = event.source.component or event.reporting_controller
    host = event.source.host or event.reporting_instance
    return f"{component}, {host}" if host else component


def _last_seen(event: Any, now: float) -> str:
    if event.HasField("series") and event.series.last_observed_time.seconds:
        return since(event.series.last_observed_time, now)
    last = event.last_timestamp if event.last_timestamp.seconds else event.event_time
    return since(last, now)


def _first_seen(event: Any, now: float) -> str:
    first = event.first_timestamp if event.first_timestamp.seconds else event.event_time
    return since(first, now)


def _count(event: Any, _: float) -> int:
    return int(event.series.count if event.HasField("series") else event.count or 1)


def _role(binding: Any, _: float) -> str:
    return f"{binding.role_ref.kind}/{binding.role_ref.name}"


def _replicas(owner: Any) -> int:
    return int(owner.spec.replicas if owner.spec.HasField("replicas") else 1)


def _images(owner: Any, _: float) -> str:
    return ",".join(c.image for c in owner.spec.template.spec.containers)


_NAME: Final = Column("Name", lambda o, _: o.metadata.name, form="name")
_AGE: Final = Column("Age", lambda o, now: since(o.metadata.creation_timestamp, now))
_CREATED: Final = Column("Created At", lambda o, now: since(o.metadata.creation_timestamp, now))
_VOLUME_MODE: Final = Column("VolumeMode", lambda o, _: o.spec.volume_mode or _UNSET, wide=True)
_ATTRIBUTES: Final = Column(
    "VolumeAttributesClass", lambda o, _: o.spec.volume_attributes_class_name or _UNSET
)
_REPLICAS: Final = (
    _NAME,
    Column("Desired", lambda o, _: _replicas(o)),
    Column("Current", lambda o, _: o.status.replicas),
    Column("Ready", lambda o, _: o.status.ready_replicas),
    _AGE,
    Column("Images", _images, wide=True),
)

_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "Pod": (
        _NAME,
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        _AGE,
        Column("IP", lambda o, _: _or(o.status.pod_ip), wide=True),
        Column("Node", lambda o, _: _or(o.spec.node_name), wide=True),
        Column("Nominated Node", lambda o, _: _or(o.status.nominated_node_name), wide=True),
        Column("Readiness Gates", readiness_gates, wide=True),
    ),
    "Node": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _roles),
        _AGE,
        Column("Version", lambda o, _: o.status.node_info.kubelet_version),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", lambda o, _: _or(o.status.node_info.os_image, _UNKNOWN), wide=True),
        Column("Kernel-Version", _kernel, wide=True),
        Column(
            "Container-Runtime",
            lambda o, _: _or(o.status.node_info.container_runtime_version, _UNKNOWN),
            wide=True,
        ),
    ),
    "Namespace": (_NAME, Column("Status", lambda o, _: o.status.phase), _AGE),
    "RuntimeClass": (_NAME, Column("Handler", lambda o, _: o.handler), _AGE),
    "PriorityClass": (
        _NAME,
        Column("Value", lambda o, _: o.value),
        Column("Global-Default", lambda o, _: o.global_default),
        _AGE,
        Column("PreemptionPolicy", lambda o, _: o.preemption_policy or "PreemptLowerPriority"),
    ),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", lambda o, _: o.spec.min_available or "N/A"),
        Column("Max Unavailable", lambda o, _: o.spec.max_unavailable or "N/A"),
        Column("Allowed Disruptions", lambda o, _: o.status.disruptions_allowed),
        _AGE,
    ),
    "Service": (
        _NAME,
        Column("Type", lambda o, _: o.spec.type or "ClusterIP"),
        Column("Cluster-IP", lambda o, _: _or(o.spec.cluster_ip)),
        Column("External-IP", lambda o, _: _or(",".join(o.spec.external_ips))),
        Column("Port(s)", _ports),
        _AGE,
        Column("Selector", lambda o, _: _selector(o.spec.selector), wide=True),
    ),
    "ReplicaSet": _REPLICAS,
    "ReplicationController": _REPLICAS,
    "StatefulSet": (
        _NAME,
        Column("Ready", lambda o, _: f"{o.status.ready_replicas}/{_replicas(o)}"),
        _AGE,
        Column("Images", _images, wide=True),
    ),
    "PersistentVolume": (
        _NAME,
        Column("Capacity", lambda o, _: o.spec.capacity.get("storage", "")),
        Column("Access Modes", lambda o, _: _modes(o.spec.access_modes)),
        Column("Reclaim Policy", lambda o, _: o.spec.persistent_volume_reclaim_policy),
        Column("Status", _volume_status),
        Column("Claim", _claim),
        Column("StorageClass", lambda o, _: o.spec.storage_class_name),
        _ATTRIBUTES,
        Column("Reason", lambda o, _: o.status.reason),
        _AGE,
        _VOLUME_MODE,
    ),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", _claim_status),
        Column("Volume", lambda o, _: o.spec.volume_name),
        Column("Capacity", _claim_capacity),
        Column("Access Modes", _claim_modes),
        Column("StorageClass", lambda o, _: o.spec.storage_class_name),
        _ATTRIBUTES,
        _AGE,
        _VOLUME_MODE,
    ),
    "StorageClass": (
        _NAME,
        Column("Provisioner", lambda o, _: o.provisioner),
        Column("ReclaimPolicy", lambda o, _: o.reclaim_policy or "Delete"),
        Column("VolumeBindingMode", lambda o, _: o.volume_binding_mode or "Immediate"),
        Column("AllowVolumeExpansion", lambda o, _: o.allow_volume_expansion),
        _AGE,
    ),
    "CSINode": (_NAME, Column("Drivers", lambda o, _: len(o.spec.drivers)), _AGE),
    "CSIDriver": (
        _NAME,
        Column("AttachRequired", lambda o, _: o.spec.attach_required),
        Column("PodInfoOnMount", lambda o, _: o.spec.pod_info_on_mount),
        Column("StorageCapacity", lambda o, _: o.spec.storage_capacity),
        Column("Modes", lambda o, _: _or(",".join(o.spec.volume_lifecycle_modes))),
        _AGE,
    ),
    "CSIStorageCapacity": (
        _NAME,
        Column("StorageClassName", lambda o, _: o.storage_class_name),
        Column("Capacity", lambda o, _: o.capacity),
    ),
    "VolumeAttachment": (
        _NAME,
        Column("Attacher", lambda o, _: o.spec.attacher),
        Column("PV", lambda o, _: o.spec.source.persistent_volume_name),
        Column("Node", lambda o, _: o.spec.node_name),
        Column("Attached", lambda o, _: o.status.attached),
        _AGE,
    ),
    "Event": (
        Column("Last Seen", _last_seen),
        Column("Type", lambda o, _: o.type),
        Column("Reason", lambda o, _: o.reason),
        Column("Object", _object),
        Column("Subobject", lambda o, _: o.involved_object.field_path, wide=True),
        Column("Source", _source, wide=True),
        Column("Message", lambda o, _: o.message.strip()),
        Column("First Seen", _first_seen, wide=True),
        Column("Count", _count, wide=True),
        Column("Name", lambda o, _: o.metadata.name, wide=True, form="name"),
    ),
    "Lease": (_NAME, Column("Holder", lambda o, _: o.spec.holder_identity), _AGE),
    "ClusterRole": (_NAME, _CREATED),
    "Role": (_NAME, _CREATED),
    "RoleBinding": (_NAME, Column("Role", _role), _AGE),
    "ClusterRoleBinding": (_NAME, Column("Role", _role), _AGE),
    "ConfigMap": (_NAME, Column("Data", lambda o, _: len(o.data) + len(o.binary_data)), _AGE),
}
#: Of a kind that is not listed above.
_OTHER: Final = (_NAME, _AGE)


class Tables:
    """Makes tables; of one watch, only the first has the columns' definitions."""

    def __init__(self) -> None:
        self._defined = False

    def of(
        self, resource: Resource, entries: Sequence[Entry], query: Mapping[str, str], now: float
    ) -> dict[str, Any]:
        """Return a table without metadata. Raises RestError 400."""
        columns = _COLUMNS.get(resource.kind.name, _OTHER)
        include = _included(query)
        return {
            "kind": "Table",
            "apiVersion": META,
            "columnDefinitions": [_definition(column) for column in columns],
            "rows": [_row(resource, columns, entry, 0, include, now) for entry in entries],
        }

    def of_one(
        self, resource: Resource, entry: Entry, revision: int, query: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the table of an event: one row. Raises RestError 400."""
        columns = _COLUMNS.get(resource.kind.name, _OTHER)
        definitions = None if self._defined else [_definition(column) for column in columns]
        self._defined = True
        row = _row(resource, columns, entry, revision, _included(query), time.time())
        return {
            "kind": "Table",
            "apiVersion": META,
            "metadata": {"resourceVersion": str(revision or entry.revision)},
            "columnDefinitions": definitions,
            "rows": [row],
        }


def _included(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "")
    if include not in ("", "None", "Metadata", "Object"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return include or "Metadata"


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": "string",
        "format": column.form,
        "description": column.name,
        "priority": int(column.wide),
    }


def _row(
    resource: Resource,
    columns: Sequence[Column],
    entry: Entry,
    revision: int,
    include: str,
    now: float,
) -> dict[str, Any]:
    message = entry.message
    row: dict[str, Any] = {"cells": [column.cell(message, now) for column in columns]}
    if include != "None":
        content = content_of(resource, entry, revision)
        row["object"] = typed(resource, content) if include == "Object" else partial(content)
    return row
