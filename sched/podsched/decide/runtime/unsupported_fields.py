"""UnsupportedFields: rejects pods with fields that this scheduler does not implement.

Without it a pod with such a field would run as if the field were not set: a pod of a workload
without the rest of its group, or, in a profile without DynamicResources, a pod with claims but
without its devices. The plugin is part of every profile and cannot be disabled. Its PreFilter
rejects the pod before any node is filtered, and the pod's condition and a FailedScheduling event
name the field.

The tables list every field of a pod's spec that concerns its placement. A test compares them with
the messages, so that each new field has to be added to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import FIXED_INPUTS, CycleState, PreFilterResult, Traits
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import SKIP, unresolvable
from podsched.v1 import objects_pb2 as v1

REASON: Final = "the scheduler does not support {} of the pod"


#: Fields that should change where or when the pod may run, but are not implemented: the field as
#: users write it, and a function that returns whether a spec uses it.
UNSUPPORTED: Final[Mapping[str, Callable[[v1.PodSpec], bool]]] = {
    "spec.resourceClaims": lambda spec: bool(spec.resource_claims),
    "spec.workloadRef": lambda spec: spec.HasField("workload_ref"),
}

#: The fields above, by the names that they have in the messages.
UNSUPPORTED_FIELDS: Final = frozenset({"PodSpec.resource_claims", "PodSpec.workload_ref"})

#: Fields that decide about placement and are honoured, here or when the pod is created.
HONOURED_FIELDS: Final = frozenset({
    "PodSpec.containers", "PodSpec.init_containers", "PodSpec.node_name", "PodSpec.priority",
    "PodSpec.priority_class_name", "PodSpec.preemption_policy", "PodSpec.scheduler_name",
    "PodSpec.node_selector", "PodSpec.affinity", "PodSpec.tolerations",
    "PodSpec.topology_spread_constraints", "PodSpec.scheduling_gates", "PodSpec.volumes",
    "PodSpec.scheduling_group", "PodSpec.overhead", "PodSpec.resources", "PodSpec.host_network",
    "PodSpec.host_users", "PodSpec.restart_policy",
    "PodSpec.termination_grace_period_seconds", "PodSpec.runtime_class_name",
    "Container.image", "Container.resources", "Container.ports", "Container.restart_policy",
    "Container.restart_policy_rules",
    "ResourceRequirements.requests", "ResourceRequirements.limits",
    "Toleration.key", "Toleration.operator", "Toleration.value", "Toleration.effect",
    "Toleration.toleration_seconds",
    "TopologySpreadConstraint.max_skew", "TopologySpreadConstraint.topology_key",
    "TopologySpreadConstraint.when_unsatisfiable", "TopologySpreadConstraint.label_selector",
    "TopologySpreadConstraint.min_domains", "TopologySpreadConstraint.node_affinity_policy",
    "TopologySpreadConstraint.node_taints_policy", "TopologySpreadConstraint.match_label_keys",
    "Affinity.node_affinity", "Affinity.pod_affinity", "Affinity.pod_anti_affinity",
    "PodAffinityTerm.label_selector", "PodAffinityTerm.namespaces",
    "PodAffinityTerm.topology_key", "PodAffinityTerm.namespace_selector",
    "PodAffinityTerm.match_label_keys", "PodAffinityTerm.mismatch_label_keys",
    "NodeSelectorTerm.match_expressions", "NodeSelectorTerm.match_fields",
    "NodeSelectorRequirement.key", "NodeSelectorRequirement.operator",
    "NodeSelectorRequirement.values",
    "Volume.persistent_volume_claim", "Volume.ephemeral", "Volume.gce_persistent_disk",
    "Volume.aws_elastic_block_store", "Volume.iscsi", "Volume.rbd", "Volume.csi",
    "Volume.azure_disk", "Volume.azure_file", "Volume.cinder", "Volume.vsphere_volume",
    "Volume.portworx_volume", "Volume.image",
})  # fmt: skip

#: Fields that only concern how a pod runs on its node; kube-scheduler does not read them either.
WITHOUT_EFFECT: Final = frozenset({
    "PodSpec.dns_policy", "PodSpec.ephemeral_containers", "PodSpec.active_deadline_seconds",
    "PodSpec.service_account_name", "PodSpec.service_account",
    "PodSpec.automount_service_account_token", "PodSpec.host_pid", "PodSpec.host_ipc",
    "PodSpec.share_process_namespace", "PodSpec.security_context", "PodSpec.image_pull_secrets",
    "PodSpec.hostname", "PodSpec.subdomain", "PodSpec.host_aliases", "PodSpec.dns_config",
    "PodSpec.readiness_gates", "PodSpec.enable_service_links", "PodSpec.set_hostname_as_fqdn",
    "PodSpec.os", "PodSpec.hostname_override",
    "Container.name", "Container.env", "Container.command", "Container.args",
    "Container.volume_mounts", "Container.image_pull_policy",
    "Container.termination_message_path", "Container.termination_message_policy",
    "Container.env_from", "Container.working_dir", "Container.volume_devices",
    "Container.liveness_probe", "Container.readiness_probe", "Container.startup_probe",
    "Container.lifecycle", "Container.security_context", "Container.resize_policy",
    "Container.stdin", "Container.stdin_once", "Container.tty",
    "Container.target_container_name", "ResourceRequirements.claims",
    "Volume.name", "Volume.empty_dir", "Volume.config_map", "Volume.secret", "Volume.projected",
    "Volume.host_path", "Volume.downward_api", "Volume.nfs", "Volume.fc", "Volume.glusterfs",
    "Volume.cephfs", "Volume.flex_volume", "Volume.flocker", "Volume.git_repo", "Volume.quobyte",
    "Volume.photon_persistent_disk", "Volume.scale_io", "Volume.storageos",
})  # fmt: skip

#: The messages whose fields the tables list.
MESSAGES: Final = (
    v1.PodSpec, v1.Container, v1.ResourceRequirements, v1.Toleration,
    v1.TopologySpreadConstraint, v1.Affinity, v1.PodAffinityTerm, v1.NodeSelectorTerm,
    v1.NodeSelectorRequirement, v1.Volume,
)  # fmt: skip


def unsupported_fields(spec: v1.PodSpec) -> Iterator[str]:
    """Yield the fields that a spec uses although they are not supported."""
    return (field for field, uses in UNSUPPORTED.items() if uses(spec))


class UnsupportedFields:
    """PreFilter: rejects pods that use a field which would be ignored."""

    name: ClassVar[str] = "UnsupportedFields"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        projects_class=True,
        reads_requests=False,
        reads_labels=False,
        reads_volumes=False,
    )

    def __init__(self, *, allocates_devices: bool = False) -> None:
        self._supported = "spec.resourceClaims" if allocates_devices else ""

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the fields."""
        return self._fields(pod.cls)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return nothing: it depends on the pod's class alone."""
        return FIXED_INPUTS

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Return UnschedulableAndUnresolvable with the fields; Skip for pods without any."""
        found = self._fields(pod.cls)
        if not found:
            return PreFilterResult(SKIP)
        return PreFilterResult(unresolvable(*(REASON.format(field) for field in found)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for updates of the pod itself; no other event can help."""
        return [ClusterEventWithHint.on(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE)]

    def _fields(self, cls: PodClass) -> tuple[str, ...]:
        return tuple(of for of in unsupported_fields(cls.spec) if of != self._supported)
