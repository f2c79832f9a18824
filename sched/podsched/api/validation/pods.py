"""A pod: its containers, ports, volumes, and the rest of its spec."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from google.protobuf.message import DecodeError, EncodeError

from podsched.api import objects as o
from podsched.api.field_errors import FieldError
from podsched.api.names import dns1123_label, dns1123_subdomain, port_name, qualified_name
from podsched.api.service_accounts import MIRROR_POD, is_mirror_pod
from podsched.api.spec_parts import take_resources
from podsched.api.validation import placement, resource_lists
from podsched.api.validation.meta import validate_labels
from podsched.api.validation.place import MAX_ITEMS, MOST_ERRORS, Place, errors_of
from podsched.api.validation.pod_updates import (
    validate_pod_ephemeralcontainers as validate_pod_ephemeralcontainers,
)
from podsched.api.validation.pod_updates import validate_pod_resize as validate_pod_resize
from podsched.api.validation.pod_updates import (
    validate_pod_status_update as validate_pod_status_update,
)
from podsched.api.validation.pod_updates import validate_pod_update as validate_pod_update
from podsched.api.validation.queue_labels import validate_queue_group, validate_queue_labels
from podsched.api.validation.storable import validate_storable
from podsched.api.validation.storage import one_volume_type
from podsched.api.validation.topology_requests import validate_topology_request

# Caches count entries, and what is remembered of a spec can be a hundred times as large as it is:
# larger specs, which few pods share, are validated each time. With 512 entries instead of 2,048, an
# API server needed 265 µs of CPU per pod instead of 185 (``sched bench TemplatesPriorities``).
_CACHE, _MOST_CACHED = 2048, 4096
_MAX_PORT = 65535
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
#: Fields of containers that ephemeral ones may not have.
_NOT_EPHEMERAL = frozenset(
    {
        *("ports", "resources", "liveness_probe", "readiness_probe", "startup_probe", "lifecycle"),
        *("resize_policy", "restart_policy", "restart_policy_rules"),
    }
)
_CANNOT_BE_SET = "cannot be set for an Ephemeral Container"
_NO_CLAIM = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
_TWO_CLAIMS = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"


def validate_pod(at: Place, pod: o.Pod) -> None:
    """Validate a pod's spec and its queue; what is found in a spec is remembered by its content."""
    validate_queue_labels(at, pod.metadata)
    validate_queue_group(at, pod.metadata)
    validate_topology_request(at("metadata"), pod.metadata)
    spec = pod.spec
    if is_mirror_pod(pod) and not spec.node_name:
        reason = "must set spec.nodeName if mirror pod annotation is set"
        place = at("metadata.annotations")[MIRROR_POD]
        place.invalid(pod.metadata.annotations[MIRROR_POD], reason)
    if spec.HasField("scheduling_group"):
        # Each gang has a name of its own: without it, the pods of all gangs share one content.
        _check_group(at("spec"), spec.scheduling_group)
        spec = o.copy_of(spec, without=("scheduling_group",))
    try:
        content = spec.SerializeToString(deterministic=True)
        if len(content) > _MOST_CACHED:
            validate_spec(at, spec)
        else:
            at.errors += _validate_content(content)
    except (DecodeError, EncodeError):  # nested more deeply than protobuf reads or writes
        at.errors += validate_storable(spec, "spec")


@lru_cache(_CACHE)
def _validate_content(content: bytes) -> Collection[FieldError]:
    spec = o.PodSpec.FromString(content)
    if not spec.HasField("resources"):
        # Pods that differ only in resources share the rest. Without a mistake in either part there
        # is none in the whole; otherwise the whole is validated, which finds them in order.
        at, claims = Place(), _claim_names(spec)
        for found in take_resources(spec):
            if found is not None:
                resource_lists.validate_requirements(at, found, claims)
        if not at.errors and not _validate_bare_spec(spec.SerializeToString(deterministic=True)):
            return ()
        spec = o.PodSpec.FromString(content)
    return errors_of(validate_spec, spec)


@lru_cache(_CACHE)
def _validate_bare_spec(content: bytes) -> Collection[FieldError]:
    return errors_of(validate_spec, o.PodSpec.FromString(content))


def validate_spec(at: Place, spec: o.PodSpec) -> None:
    """Validate a pod's spec."""
    at = at("spec")
    at.errors += validate_storable(spec, at.path)
    _check_volumes(at("volumes"), spec)
    _check_claims(at("resourceClaims"), spec)
    _check_containers(at, spec)
    _check_policies(at, spec)
    _check_names(at, spec)
    if spec.node_selector:
        validate_labels(at("nodeSelector"), spec.node_selector)
    if spec.HasField("affinity"):
        placement.validate_affinity(at("affinity"), spec.affinity)
    if spec.scheduling_gates:
        placement.validate_gates(at("schedulingGates"), spec.scheduling_gates)
    constraints = spec.topology_spread_constraints
    placement.validate_spread(at("topologySpreadConstraints"), constraints)
    placement.validate_tolerations(at("tolerations"), spec.tolerations)
    if spec.scheduling_gates and spec.node_name:
        at("nodeName").forbidden("cannot be set until all schedulingGates have been cleared")
    if spec.overhead:
        resource_lists.validate_quantities(at("overhead"), spec.overhead)
    if spec.HasField("resources"):
        resource_lists.validate_pod_level(at("resources"), spec, _claim_names(spec))


def _check_policies(at: Place, spec: o.PodSpec) -> None:
    for name, value, supported in (
        ("restartPolicy", spec.restart_policy, _RESTART_POLICIES),
        ("preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never")),
        ("dnsPolicy", spec.dns_policy, _DNS_POLICIES),
    ):
        if value not in supported:
            at(name).one_of(value, supported)
    if spec.HasField("active_deadline_seconds"):
        at("activeDeadlineSeconds").between(spec.active_deadline_seconds, 1, 2**31 - 1)


def _check_names(at: Place, spec: o.PodSpec) -> None:
    for name, value, rule in (
        ("nodeName", spec.node_name, dns1123_subdomain),
        ("priorityClassName", spec.priority_class_name, dns1123_subdomain),
        ("serviceAccountName", spec.service_account_name, dns1123_subdomain),
        ("runtimeClassName", spec.runtime_class_name, dns1123_subdomain),
        ("hostname", spec.hostname, dns1123_label),
        ("subdomain", spec.subdomain, dns1123_label),
    ):
        if value:
            at(name).rule(value, rule)
    if spec.HasField("scheduling_group"):
        _check_group(at, spec.scheduling_group)


def _check_group(at: Place, group: o.PodSchedulingGroup) -> None:
    place = at("schedulingGroup.podGroupName")
    if group.HasField("pod_group_name"):
        place.rule(group.pod_group_name, dns1123_subdomain)
    else:
        place.invalid(None, "must specify one of: `podGroupName`")


# ---------------------------------------------------------------------------------- containers


def _check_containers(at: Place, spec: o.PodSpec) -> None:
    at("containers").present(spec.containers)
    volumes, claims = {volume.name for volume in spec.volumes}, _claim_names(spec)
    names: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    for group, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        # As in Kubernetes, the host's network asks something of these alone.
        on_host = spec.host_network and group == "containers"
        for item, container in at(group).each(containers):
            _check_container(item, container, on_host, volumes)
            place = item("resources")
            resource_lists.validate_requirements(place, container.resources, claims)
            item("name").once(container.name, names)
            if group == "ephemeralContainers":
                _check_ephemeral(item, container, spec)
            # Init containers run before the others; sidecars are not told apart in Kubernetes.
            alone = group == "initContainers"
            _check_host_ports(item("ports"), container, set() if alone else host_ports)
    for index, container in enumerate(spec.init_containers[:MAX_ITEMS]):
        policy = at("initContainers")[index]("restartPolicy")
        policy.one_of(container.restart_policy, _RESTART_POLICIES)


def _check_container(
    at: Place, container: o.Container, host_network: bool, volumes: set[str]
) -> None:
    at("name").name(container.name, dns1123_label)
    if at("image").present(container.image) and container.image != container.image.strip():
        at("image").invalid(container.image, "must not have leading or trailing whitespace")
    policies = ("Always", "IfNotPresent", "Never")
    at("imagePullPolicy").one_of(container.image_pull_policy, policies)
    _check_ports(at("ports"), container, host_network)
    for item, variable in at("env").each(container.env):
        item("name").present(variable.name)
        if variable.value and variable.HasField("value_from"):
            item("valueFrom").invalid("", "may not be specified when `value` is not empty")
    _check_mounts(at("volumeMounts"), container, volumes)


def _check_ephemeral(at: Place, container: o.Container, spec: o.PodSpec) -> None:
    target = container.target_container_name
    if target and all(c.name != target for c in (*spec.containers, *spec.init_containers)):
        at("targetContainerName").not_found(target)
    for field, value in container.ListFields():
        # The defaults of kubelets set empty resources.
        if field.name in _NOT_EPHEMERAL and (field.name != "resources" or value.ListFields()):
            at(field.json_name).forbidden(_CANNOT_BE_SET)
    for item, mount in at("volumeMounts").each(container.volume_mounts):
        for name, path in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
            if path:
                item(name).forbidden(_CANNOT_BE_SET)


def _check_mounts(at: Place, container: o.Container, volumes: set[str]) -> None:
    seen: set[str] = set()
    for item, mount in at.each(container.volume_mounts):
        if item("name").present(mount.name) and mount.name not in volumes:
            item("name").not_found(mount.name)
        if item("mountPath").present(mount.mount_path) and mount.mount_path in seen:
            item("mountPath").invalid(mount.mount_path, "must be unique")
        seen.add(mount.mount_path)


def _check_ports(at: Place, container: o.Container, host_network: bool) -> None:
    names: set[str] = set()
    for item, port in at.each(container.ports):
        if port.name and item("name").rule(port.name, port_name):
            item("name").once(port.name, names)
        if item("containerPort").present(port.container_port):
            item("containerPort").between(port.container_port, 1, _MAX_PORT)
        if port.host_port:
            item("hostPort").between(port.host_port, 1, _MAX_PORT)
        # In a template it may be left out: its pods get it.
        if host_network and port.host_port not in (0, port.container_port):
            reason = "must match `containerPort` when `hostNetwork` is true"
            item("hostPort").invalid(port.host_port, reason)
        item("protocol").one_of(port.protocol, ("TCP", "UDP", "SCTP"), required=True)


def _check_host_ports(at: Place, container: o.Container, taken: set[tuple[str, str, int]]) -> None:
    for index, port in enumerate(container.ports[:MAX_ITEMS]):
        if port.host_port:
            claim = (port.protocol, port.host_ip, port.host_port)
            at[index]("hostPort").once(claim, taken, "/".join(map(str, claim)))


# ---------------------------------------------------------------------------------- volumes


def _check_volumes(at: Place, spec: o.PodSpec) -> None:
    names: set[str] = set()
    for item, volume in at.each(spec.volumes):
        item("name").name(volume.name, dns1123_label)
        if volume.name:
            item("name").once(volume.name, names)
        _check_source(item, volume)


def _check_source(at: Place, volume: o.Volume) -> None:
    sources = [field.json_name for field, _ in volume.ListFields() if field.name != "name"]
    one_volume_type(at, sources)
    if volume.HasField("persistent_volume_claim"):
        claim = volume.persistent_volume_claim.claim_name
        at("persistentVolumeClaim.claimName").name(claim, dns1123_subdomain)
    if volume.HasField("ephemeral") and not volume.ephemeral.HasField("volume_claim_template"):
        at("ephemeral.volumeClaimTemplate").required()


# ---------------------------------------------------------------------------------- devices


def _claim_names(spec: o.PodSpec) -> frozenset[str]:
    return frozenset(claim.name for claim in spec.resource_claims if claim.name)


def _check_claims(at: Place, spec: o.PodSpec) -> None:
    names: set[str] = set()
    for item, claim in at.each(spec.resource_claims):
        item("name").name(claim.name, dns1123_label)
        if claim.name:
            item("name").once(claim.name, names)
        name = claim.resource_claim_name if claim.HasField("resource_claim_name") else None
        from_template = claim.HasField("resource_claim_template_name")
        template = claim.resource_claim_template_name if from_template else None
        if (name is None) == (template is None):
            value = {
                "Name": claim.name,
                "ResourceClaimName": name,
                "ResourceClaimTemplateName": template,
            }
            item.invalid(value, _NO_CLAIM if name is None else _TWO_CLAIMS)
        if name is not None:
            item("resourceClaimName").rule(name, dns1123_subdomain)
        if template is not None:
            item("resourceClaimTemplateName").rule(template, dns1123_subdomain)


# ---------------------------------------------------------------------------------- status


def validate_pod_status(at: Place, pod: o.Pod) -> None:
    """Validate what an update of the status says."""
    status, at = pod.status, at("status")
    conditions = status.conditions[:MAX_ITEMS]
    negative = [index for index, each in enumerate(conditions) if each.observed_generation < 0]
    for index in negative[:MOST_ERRORS]:
        place = at("conditions")[index]("observedGeneration")
        place.invalid(conditions[index].observed_generation, "must be a non-negative integer")
    at("nominatedNodeName").optional_name(status.nominated_node_name, dns1123_subdomain)
    at("phase").one_of(status.phase, _PHASES)
    for item, condition in at("conditions").each(status.conditions):
        item("type").rule(condition.type, qualified_name)
        item("status").one_of(condition.status, ("True", "False", "Unknown"))
