"""The register of kinds: one entry for each, with everything that differs between kinds.

Server, client and command line read it, so that they need no code for single kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from podsched.api import columns as c
from podsched.api import objects as o
from podsched.api.columns import NONE, Column, Show
from podsched.api.kind import VERBS, Access, Generation
from podsched.api.kind import Kind as Kind
from podsched.api.node_labels import ZONE
from podsched.api.priorities import PREEMPT_LOWER_PRIORITY
from podsched.v1.objects_pb2 import Object

WIDE = Show.WIDE


class UnknownKindError(LookupError):
    """There is no kind with this name; the caller's mistake."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'the server doesn\'t have a resource type "{name}"')


def _controller(obj: Any, _: float) -> str:
    for owner in obj.metadata.owner_references:
        if owner.controller:
            kind = f"{owner.kind}.{owner.api_version.rpartition('/')[0]}".removesuffix(".")
            return f"{kind.lower()}/{owner.name}"
    return NONE


_APPS, _BATCH, _STORAGE = "apps/v1", "batch/v1", "storage.k8s.io/v1"
_GROUPS, _QUEUES = "scheduling.k8s.io/v1alpha2", "kueue.x-k8s.io/v1beta2"
_RBAC_GROUP = "rbac.authorization.k8s.io"
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = (
    *(f"involvedObject.{name}" for name in _REFERENCE),
    *("reason", "reportingComponent", "source", "type"),
)

# What kinds of one family have in common.
_workload = partial(
    Kind,
    api_version=_APPS,
    rules="workloads",
    role=Access.EDIT,
    in_all=True,
    generation=Generation.COUNTED,
)
_storage = partial(
    Kind, api_version=_STORAGE, namespaced=False, rules="storage", answers_deletion=True
)
_rbac = partial(Kind, api_version=f"{_RBAC_GROUP}/v1", name_rule="path_segment_name", rules="rbac")
_role = partial(_rbac, columns=(c.NAME, *c.CREATED))
_binding = partial(_rbac, columns=c.BINDING, defaults={"role_ref.api_group": _RBAC_GROUP})
_devices = partial(Kind, api_version="resource.k8s.io/v1", rules="devices", answers_deletion=True)
_queues = partial(
    Kind,
    api_version=_QUEUES,
    namespaced=False,
    rules="queues",
    generation=Generation.COUNTED,
    needs_version=True,
    kept=True,
)

_ALL = (
    Kind(
        o.Pod,
        ("po",),
        columns=c.table(
            c.of_kubectl("Ready", c.pod_ready),
            Column("Status", c.pod_status),
            c.of_kubectl("Restarts", c.pod_restarts),
            c.of_kubectl("IP", lambda o, _: o.status.pod_ip or NONE, WIDE),
            Column("Node", lambda o, _: o.spec.node_name or NONE, kubectl=WIDE),
            c.of_sched("PRIORITY", lambda o, _: o.spec.priority, WIDE),
            c.wide("Nominated Node", lambda o, _: o.status.nominated_node_name or NONE, NONE),
            c.of_kubectl("Readiness Gates", c.pod_gates, WIDE),
            c.of_sched("SCHEDULER", lambda o, _: o.spec.scheduler_name, WIDE, "default-scheduler"),
        ),
        rules="pods",
        role=Access.EDIT,
        subresources=(
            *("attach", "binding", "ephemeralcontainers", "eviction", "exec", "log"),
            *("portforward", "proxy", "resize"),
        ),
        in_all=True,
        selectable=(
            *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName"),
            *("spec.serviceAccountName", "spec.hostNetwork"),
            *("status.phase", "status.podIP", "status.nominatedNodeName"),
        ),
        generation=Generation.COUNTED,
        answers_deletion=True,
    ),
    Kind(
        o.Node,
        ("no",),
        namespaced=False,
        columns=(
            c.NAME,
            Column("Status", c.node_status),
            c.of_kubectl("Roles", c.node_roles),
            c.AGE,
            *(c.of_sched(name.upper(), c.allocatable(name)) for name in ("cpu", "memory", "pods")),
            c.of_kubectl("Version", lambda o, _: o.status.node_info.kubelet_version),
            c.of_sched("VERSION", c.node_version),
            c.of_sched("TAINTS", c.node_taints, WIDE),
            c.of_sched("ZONE", lambda o, _: o.metadata.labels.get(ZONE, NONE), WIDE),
            c.of_kubectl("Internal-IP", c.node_address("InternalIP"), WIDE),
            c.of_kubectl("External-IP", c.node_address("ExternalIP"), WIDE),
            c.of_kubectl("OS-Image", lambda o, _: o.status.node_info.os_image or c.UNKNOWN, WIDE),
            c.of_kubectl("Kernel-Version", c.node_kernel, WIDE),
            c.of_kubectl(
                "Container-Runtime",
                lambda o, _: o.status.node_info.container_runtime_version or c.UNKNOWN,
                WIDE,
            ),
        ),
        rules="cluster",
        subresources=("proxy",),
        selectable=("spec.unschedulable",),
        status_at_creation=True,
        kept=True,
    ),
    Kind(
        o.Namespace,
        ("ns",),
        namespaced=False,
        columns=c.table(Column("Status", lambda o, _: o.status.phase or "Active")),
        name_rule="dns1123_label",
        role=Access.VIEW,
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
        subresources=("finalize",),
        selectable=("status.phase",),
        status_at_creation=True,
        answers_deletion=True,
    ),
    Kind(
        o.PriorityClass,
        ("pc",),
        api_version="scheduling.k8s.io/v1",
        namespaced=False,
        columns=(
            c.NAME,
            Column("Value", lambda o, _: o.value),
            Column("Global-Default", lambda o, _: o.global_default),
            c.AGE,
            Column("PreemptionPolicy", lambda o, _: o.preemption_policy or "PreemptLowerPriority"),
        ),
        defaults={"preemption_policy": PREEMPT_LOWER_PRIORITY},
        rules="cluster",
        generation=Generation.FIXED,
        kept=True,
    ),
    Kind(
        o.PodDisruptionBudget,
        ("pdb",),
        api_version="policy/v1",
        columns=c.table(
            Column("Min Available", lambda o, _: o.spec.min_available or "N/A"),
            Column("Max Unavailable", lambda o, _: o.spec.max_unavailable or "N/A"),
            Column("Allowed Disruptions", lambda o, _: o.status.disruptions_allowed),
        ),
        rules="cluster",
        role=Access.EDIT,
        generation=Generation.COUNTED,
        needs_version=True,
    ),
    Kind(
        o.Service,
        ("svc",),
        columns=c.table(
            Column("Type", lambda o, _: o.spec.type or "ClusterIP"),
            Column("Cluster-IP", lambda o, _: o.spec.cluster_ip or NONE),
            Column("External-IP", lambda o, _: ",".join(o.spec.external_ips) or NONE),
            Column("Port(s)", c.ports),
            Column("Selector", lambda o, _: c.equals(o.spec.selector), kubectl=WIDE),
        ),
        name_rule="dns1123_label",
        defaults={"spec.type": "ClusterIP", "spec.session_affinity": "None"},
        rules="services",
        role=Access.EDIT,
        subresources=("proxy",),
        in_all=True,
        selectable=("spec.clusterIP", "spec.type"),
    ),
    _workload(
        o.ReplicaSet,
        ("rs",),
        columns=(*c.REPLICAS, c.SELECTOR),
        defaults={"spec.replicas": 1},
        subresources=("scale",),
        selectable=("status.replicas",),
    ),
    _workload(
        o.StatefulSet,
        ("sts",),
        columns=c.table(
            Column("Ready", lambda o, _: f"{o.status.ready_replicas}/{c.replicas(o)}"),
            *c.CONTAINERS,
        ),
        defaults={
            "spec.replicas": 1,
            "spec.pod_management_policy": "OrderedReady",
            "spec.revision_history_limit": 10,
        },
        subresources=("scale",),
    ),
    _workload(
        o.ReplicationController,
        ("rc",),
        api_version="v1",
        columns=c.REPLICAS,
        defaults={"spec.replicas": 1},
        subresources=("scale",),
        selectable=("status.replicas",),
    ),
    Kind(
        o.PersistentVolume,
        ("pv",),
        namespaced=False,
        columns=c.table(
            Column("Capacity", lambda o, _: o.spec.capacity.get("storage", "")),
            Column("Access Modes", lambda o, _: c.access_modes(o.spec.access_modes)),
            Column("Reclaim Policy", lambda o, _: o.spec.persistent_volume_reclaim_policy),
            Column("Status", c.phase),
            Column("Claim", c.volume_claim),
            Column("StorageClass", lambda o, _: o.spec.storage_class_name),
            c.ATTRIBUTES,
            c.of_kubectl("Reason", lambda o, _: o.status.reason),
            c.VOLUME_MODE,
        ),
        defaults={
            "spec.persistent_volume_reclaim_policy": "Retain",
            "spec.volume_mode": "Filesystem",
            "status.phase": "Pending",
        },
        rules="storage",
        status_at_creation=True,
        answers_deletion=True,
    ),
    Kind(
        o.PersistentVolumeClaim,
        ("pvc",),
        columns=c.table(
            Column("Status", c.phase),
            Column("Volume", lambda o, _: o.spec.volume_name),
            Column("Capacity", c.claim_capacity),
            Column("Access Modes", c.claim_modes),
            Column("StorageClass", lambda o, _: o.spec.storage_class_name),
            c.ATTRIBUTES,
            c.VOLUME_MODE,
        ),
        defaults={"spec.volume_mode": "Filesystem", "status.phase": "Pending"},
        rules="storage",
        role=Access.EDIT,
        status_at_creation=True,
        answers_deletion=True,
    ),
    _storage(
        o.StorageClass,
        ("sc",),
        columns=c.table(
            Column("Provisioner", lambda o, _: o.provisioner),
            Column("ReclaimPolicy", lambda o, _: o.reclaim_policy or "Delete"),
            Column("VolumeBindingMode", lambda o, _: o.volume_binding_mode or "Immediate"),
            Column("AllowVolumeExpansion", lambda o, _: o.allow_volume_expansion),
        ),
        defaults={"reclaim_policy": "Delete", "volume_binding_mode": "Immediate"},
        # Volumes have been made by them.
        fixed=("parameters", "provisioner", "reclaim_policy", "volume_binding_mode"),
        kept=True,
    ),
    _storage(
        o.CSINode,
        columns=c.table(Column("Drivers", lambda o, _: len(o.spec.drivers))),
        needs_version=True,
    ),
    _storage(
        o.CSIDriver,
        columns=c.table(
            Column("AttachRequired", lambda o, _: o.spec.attach_required),
            Column("PodInfoOnMount", lambda o, _: o.spec.pod_info_on_mount),
            Column("StorageCapacity", lambda o, _: o.spec.storage_capacity),
            Column("Modes", lambda o, _: ",".join(o.spec.volume_lifecycle_modes) or NONE),
        ),
        defaults={
            "spec.attach_required": True,
            "spec.pod_info_on_mount": False,
            "spec.storage_capacity": False,
            "spec.requires_republish": False,
            "spec.se_linux_mount": False,
            "spec.fs_group_policy": "ReadWriteOnceWithFSType",
        },
        needs_version=True,
        kept=True,
    ),
    Kind(
        o.CSIStorageCapacity,
        api_version=_STORAGE,
        columns=(
            c.NAME,
            Column("StorageClassName", lambda o, _: o.storage_class_name),
            Column("Capacity", lambda o, _: o.capacity),
            c.OWN_AGE,
        ),
        rules="storage",
        fixed=("node_topology", "storage_class_name"),
        needs_version=True,
    ),
    _storage(
        o.VolumeAttachment,
        columns=c.table(
            Column("Attacher", lambda o, _: o.spec.attacher),
            Column("PV", lambda o, _: o.spec.source.persistent_volume_name),
            Column("Node", lambda o, _: o.spec.node_name),
            Column("Attached", lambda o, _: o.status.attached),
        ),
        fixed=("spec",),
        needs_version=True,
    ),
    Kind(
        o.Event,
        ("ev",),
        columns=(
            Column("Last Seen", c.last_seen),
            Column("Type", lambda o, _: o.type),
            Column("Reason", lambda o, _: o.reason),
            Column("Object", c.event_object),
            c.wide("Subobject", lambda o, _: o.involved_object.field_path),
            c.wide("Source", c.event_source),
            Column("Message", lambda o, _: o.message.strip()),
            c.wide("First Seen", lambda o, now: c.seen(o.first_timestamp, o, now)),
            c.wide("Count", lambda o, _: o.series.count if o.HasField("series") else o.count or 1),
            c.wide("Name", lambda o, _: o.metadata.name, form="name"),
        ),
        rules="events",
        role=Access.VIEW,
        selectable=_EVENT_FIELDS,
    ),
    Kind(
        o.Lease,
        api_version="coordination.k8s.io/v1",
        columns=c.table(
            Column("Holder", lambda o, _: o.spec.holder_identity),
            c.of_sched("TRANSITIONS", lambda o, _: o.spec.lease_transitions, WIDE),
        ),
        rules="cluster",
        needs_version=True,
    ),
    _role(o.Role, role=Access.ADMIN),
    _role(o.ClusterRole, namespaced=False, kept=True),
    _binding(o.RoleBinding, role=Access.ADMIN),
    _binding(o.ClusterRoleBinding, namespaced=False, kept=True),
    Kind(
        o.ConfigMap,
        ("cm",),
        columns=c.table(Column("Data", lambda o, _: len(o.data) + len(o.binary_data))),
        rules="config_maps",
        role=Access.EDIT,
    ),
    Kind(
        o.ResourceQuota,
        ("quota",),
        columns=c.table(
            Column("Request", c.quota_used(limits=False)),
            Column("Limit", c.quota_used(limits=True)),
        ),
        rules="quotas",
        role=Access.VIEW,
    ),
    Kind(
        o.RuntimeClass,
        api_version="node.k8s.io/v1",
        namespaced=False,
        columns=c.table(Column("Handler", lambda o, _: o.handler)),
        rules="cluster",
        fixed=("handler",),
        needs_version=True,
        kept=True,
    ),
    Kind(o.LimitRange, ("limits",), rules="limit_ranges", role=Access.VIEW),
    Kind(
        o.ControllerRevision,
        api_version=_APPS,
        columns=c.table(
            Column("Controller", _controller), Column("Revision", lambda o, _: o.revision)
        ),
        rules="workloads",
        # It is what a controller goes back to.
        fixed=("data",),
        role=Access.VIEW,
    ),
    Kind(
        o.Workload,
        api_version=_GROUPS,
        columns=(c.NAME, *c.CREATED),
        rules="pod_groups",
        role=Access.EDIT,
    ),
    Kind(
        o.PodGroup,
        api_version=_GROUPS,
        columns=c.table(
            Column(
                "Policy",
                lambda o, _: "Gang" if o.spec.scheduling_policy.HasField("gang") else "Basic",
            ),
            Column(
                "Workload",
                lambda o, _: o.spec.pod_group_template_ref.workload.workload_name or NONE,
            ),
            Column("Status", c.group_status),
        ),
        defaults={"spec.disruption_mode": "Pod"},
        rules="pod_groups",
        role=Access.EDIT,
    ),
    _devices(o.DeviceClass, namespaced=False, generation=Generation.COUNTED, kept=True),
    _devices(o.ResourceClaim, columns=c.table(Column("State", c.claim_state)), role=Access.EDIT),
    _devices(o.ResourceClaimTemplate, role=Access.EDIT),
    _devices(
        o.ResourceSlice,
        namespaced=False,
        columns=c.table(
            Column("Node", lambda o, _: o.spec.node_name),
            Column("Driver", lambda o, _: o.spec.driver),
            Column("Pool", lambda o, _: o.spec.pool.name),
        ),
        rules="resource_slices",
        selectable=("spec.nodeName", "spec.driver"),
        generation=Generation.COUNTED,
    ),
    _devices(
        o.DeviceTaintRule,
        api_version="resource.k8s.io/v1beta2",
        namespaced=False,
        columns=(c.NAME, *c.CREATED),
        generation=Generation.COUNTED,
        kept=True,
    ),
    _workload(
        o.Deployment,
        ("deploy",),
        columns=c.table(
            Column("Ready", lambda o, _: f"{o.status.ready_replicas}/{c.replicas(o)}"),
            Column("Up-to-date", lambda o, _: o.status.updated_replicas),
            Column("Available", lambda o, _: o.status.available_replicas),
            *c.CONTAINERS,
            c.SELECTOR,
        ),
        defaults={
            "spec.replicas": 1,
            "spec.strategy.type": "RollingUpdate",
            "spec.revision_history_limit": 10,
            "spec.progress_deadline_seconds": 600,
        },
        subresources=("scale",),
    ),
    _workload(
        o.DaemonSet,
        ("ds",),
        columns=c.table(
            Column("Desired", lambda o, _: o.status.desired_number_scheduled),
            Column("Current", lambda o, _: o.status.current_number_scheduled),
            Column("Ready", lambda o, _: o.status.number_ready),
            Column("Up-to-date", lambda o, _: o.status.updated_number_scheduled),
            Column("Available", lambda o, _: o.status.number_available),
            Column("Node Selector", lambda o, _: c.equals(o.spec.template.spec.node_selector)),
            *c.CONTAINERS,
            c.SELECTOR,
        ),
        defaults={"spec.update_strategy.type": "RollingUpdate", "spec.revision_history_limit": 10},
    ),
    _workload(
        o.Job,
        api_version=_BATCH,
        columns=c.table(
            Column("Status", c.job_status),
            Column("Completions", c.job_completions),
            Column("Duration", c.job_duration),
            *c.CONTAINERS,
            c.SELECTOR,
        ),
        defaults={
            "spec.completion_mode": "NonIndexed",
            "spec.suspend": False,
            "spec.manual_selector": False,
        },
        rules="jobs",
        selectable=("status.successful",),
    ),
    _workload(
        o.CronJob,
        ("cj",),
        api_version=_BATCH,
        columns=c.table(
            Column("Schedule", lambda o, _: o.spec.schedule),
            Column("Timezone", lambda o, _: o.spec.time_zone or NONE),
            Column("Suspend", lambda o, _: o.spec.suspend),
            Column("Active", lambda o, _: len(o.status.active)),
            Column("Last Schedule", c.last_schedule),
            *c.containers_of(lambda o: o.spec.job_template.spec.template.spec),
        ),
        defaults={
            "spec.concurrency_policy": "Allow",
            "spec.suspend": False,
            "spec.successful_jobs_history_limit": 3,
            "spec.failed_jobs_history_limit": 1,
        },
        rules="jobs",
    ),
    Kind(
        o.PodTemplate,
        columns=(
            c.NAME,
            *c.containers_of(lambda o: o.template.spec, c.Show.ALWAYS),
            Column("Pod Labels", lambda o, _: c.equals(o.template.metadata.labels)),
            c.OWN_AGE,
        ),
        rules="workloads",
        role=Access.EDIT,
        generation=Generation.COUNTED,
        answers_deletion=True,
    ),
    _workload(
        o.HorizontalPodAutoscaler,
        ("hpa",),
        api_version="autoscaling/v2",
        columns=c.table(
            Column("Reference", c.scale_target),
            Column("Targets", c.scale_metrics),
            Column("MinPods", lambda o, _: o.spec.min_replicas or c.UNSET),
            Column("MaxPods", lambda o, _: o.spec.max_replicas),
            Column("Replicas", lambda o, _: o.status.current_replicas),
        ),
        defaults={"spec.min_replicas": 1},
        generation=Generation.NONE,
    ),
    Kind(
        o.Endpoints,
        ("ep",),
        columns=c.table(Column("Endpoints", c.endpoints)),
        rules="endpoints",
        role=Access.VIEW,
    ),
    Kind(
        o.EndpointSlice,
        api_version="discovery.k8s.io/v1",
        columns=c.table(
            Column("AddressType", lambda o, _: o.address_type),
            Column("Ports", c.slice_ports),
            Column("Endpoints", c.slice_addresses),
        ),
        rules="endpoints",
        fixed=("address_type",),
        role=Access.VIEW,
        generation=Generation.COUNTED,
    ),
    Kind(
        o.Secret,
        columns=c.table(
            Column("Type", lambda o, _: o.type), Column("Data", lambda o, _: len(o.data))
        ),
        defaults={"type": "Opaque"},
        rules="config_maps",
        fixed=("type",),
        role=Access.EDIT,
        selectable=("type",),
        secret=True,
    ),
    Kind(
        o.ServiceAccount,
        ("sa",),
        columns=c.table(Column("Secrets", lambda o, _: len(o.secrets))),
        rules="config_maps",
        role=Access.EDIT,
        subresources=("token",),
        answers_deletion=True,
    ),
    _queues(o.ResourceFlavor, ("flavor", "flavors", "rf")),
    _queues(
        o.ClusterQueue,
        ("cq",),
        columns=(
            c.NAME,
            Column("Cohort", lambda o, _: o.spec.cohort_name),
            c.wide("Strategy", lambda o, _: o.spec.queueing_strategy),
            Column("Pending Workloads", lambda o, _: o.status.pending_workloads),
            c.wide("Admitted Workloads", lambda o, _: o.status.admitted_workloads),
            c.OWN_AGE,
        ),
        defaults={
            "spec.queueing_strategy": "BestEffortFIFO",
            "spec.flavor_fungibility.when_can_borrow": "MayStopSearch",
            "spec.flavor_fungibility.when_can_preempt": "TryNextFlavor",
            "spec.preemption.reclaim_within_cohort": "Never",
            "spec.preemption.borrow_within_cohort.policy": "Never",
            "spec.preemption.within_cluster_queue": "Never",
            "spec.stop_policy": "None",
        },
    ),
    _queues(
        o.LocalQueue,
        ("queue", "queues", "lq"),
        namespaced=True,
        columns=(
            c.NAME,
            Column("ClusterQueue", lambda o, _: o.spec.cluster_queue),
            Column("Pending Workloads", lambda o, _: o.status.pending_workloads),
            Column("Admitted Workloads", lambda o, _: o.status.admitted_workloads),
            c.OWN_AGE,
        ),
        defaults={"spec.stop_policy": "None"},
        role=Access.VIEW,
        kept=False,
    ),
    _queues(o.Cohort, ("co",)),
    _queues(
        o.WorkloadPriorityClass,
        ("wpc",),
        columns=(c.NAME, Column("Value", lambda o, _: o.value), c.OWN_AGE),
    ),
    _queues(o.Topology, ("topo",)),
    Kind(
        o.CertificateSigningRequest,
        ("csr",),
        api_version="certificates.k8s.io/v1",
        namespaced=False,
        columns=(
            c.NAME,
            c.AGE,
            Column("SignerName", lambda o, _: o.spec.signer_name),
            Column("Requestor", lambda o, _: o.spec.username),
            Column("RequestedDuration", c.requested_duration),
            Column("Condition", c.request_state),
        ),
        rules="certificates",
        subresources=("approval",),
        selectable=("spec.signerName",),
        kept=True,
    ),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _ALL})
"""Every kind by its name, in the order of the ``Object`` message."""
#: The kinds of queues: their quota, order and topology.
QUEUE_KINDS = tuple(kind.name for kind in _ALL if kind.api_version == _QUEUES)
#: The kinds that a scheduler watches, its controllers included, in one stream.
WATCHED_KINDS = (
    *("Lease", "Namespace", "Node", "Service"),
    *("ReplicaSet", "StatefulSet", "ReplicationController", "Deployment"),
    *("PersistentVolume", "PersistentVolumeClaim", "StorageClass"),
    *("CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
    *("PodDisruptionBudget", "PodGroup", "Job"),
    *("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
    *QUEUE_KINDS,
    "Pod",
)
#: Those of them that only the controllers and the election need: no decision depends on them.
UNDECIDING_KINDS = frozenset({"Lease", "Deployment", "Job", "ResourceClaimTemplate", "Workload"})
#: The kinds that it watches only while a feature gate is on; with the gate off, they do nothing.
GATED_KINDS: Mapping[str, str] = MappingProxyType(
    {"DeviceTaintRule": "DRADeviceTaintRules", "Workload": "WorkloadWithJob"}
)

_BY_MESSAGE: dict[type[Any], Kind] = {kind.message: kind for kind in _ALL}
_BY_ANY_NAME: dict[str, Kind] = {
    alias: kind for kind in _ALL for alias in (kind.name.lower(), kind.plural, *kind.short_names)
}


def watched_kinds(gates: Mapping[str, bool]) -> tuple[str, ...]:
    """Return what a scheduler watches under these feature gates."""
    return (*(kind for kind, gate in GATED_KINDS.items() if gates.get(gate)), *WATCHED_KINDS)


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
    """Return an ``Object`` with a copy of the object in its kind's field."""
    wrapped = Object()
    put(message, wrapped)
    return wrapped


def put(message: o.AnyObject, into: Object) -> None:
    """Copy an object into its kind's field of an ``Object``."""
    getattr(into, kind_of(message).oneof_field).CopyFrom(message)


def unwrap(wrapped: Object) -> o.AnyObject:
    """Return the object inside (not copied). Raises ValueError if no field is set."""
    member = wrapped.WhichOneof("object")
    if member is None:
        raise ValueError("the Object is empty: exactly one member must be set")
    return cast(o.AnyObject, getattr(wrapped, member))
