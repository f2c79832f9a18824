"""A pod: its containers, ports, volumes, and the rest of its spec."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from google.protobuf.message import DecodeError, EncodeError

from podsched.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from podsched.api.objects import (
    Container,
    ContainerPort,
    Pod,
    PodSchedulingGroup,
    PodSpec,
    Volume,
)
from podsched.api.resources import is_sidecar
from podsched.api.spec_parts import take_resources
from podsched.api.validation import placement, resource_lists
from podsched.api.validation.meta import (
    MAX_ITEMS,
    MOST_ERRORS,
    bounded_items,
    one_of,
    validate_labels,
)
from podsched.api.validation.names import dns1123_label, dns1123_subdomain, qualified_name
from podsched.api.validation.storable import validate_storable

# Caches count entries, and what is remembered of a spec can be a hundred times as large as it is:
# larger specs, which few pods share, are validated each time.
_CACHE, _MOST_CACHED = 2048, 4096
_MAX_PORT = 65535
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def validate_pod(pod: Pod) -> list[FieldError]:
    """Return every mistake in a pod's spec; remembered by the content of the spec."""
    try:
        content = pod.spec.SerializeToString(deterministic=True)
        if len(content) > _MOST_CACHED:
            return validate_spec(pod.spec)
        return list(_validate_content(content))
    except (DecodeError, EncodeError):  # nested more deeply than protobuf reads or writes
        return validate_storable(pod.spec, "spec")


@lru_cache(_CACHE)
def _validate_content(content: bytes) -> tuple[FieldError, ...]:
    spec = PodSpec.FromString(content)
    if not spec.HasField("resources"):
        # Without a mistake in either part there is none in the whole; else the whole tells them.
        taken = take_resources(spec)
        errors = any(
            found is not None and resource_lists.validate_requirements(found, "") for found in taken
        )
        if not errors and not _validate_bare_spec(spec.SerializeToString(deterministic=True)):
            return ()
        spec = PodSpec.FromString(content)
    return tuple(validate_spec(spec))


@lru_cache(_CACHE)
def _validate_bare_spec(content: bytes) -> tuple[FieldError, ...]:
    return tuple(validate_spec(PodSpec.FromString(content)))


def validate_spec(spec: PodSpec) -> list[FieldError]:
    """Return every mistake in a pod's spec."""
    volumes = _volume_names(spec.volumes)
    errors = validate_storable(spec, "spec")
    errors += _volumes(spec.volumes)
    errors += _containers(spec, volumes)
    errors += _policies(spec)
    errors += _names(spec)
    errors += validate_labels(spec.node_selector, "spec.nodeSelector")
    errors += placement.validate_affinity(spec, "spec.affinity")
    errors += placement.validate_gates(spec, "spec")
    spread = "spec.topologySpreadConstraints"
    errors += placement.validate_spread(spec.topology_spread_constraints, spread)
    errors += placement.validate_tolerations(spec.tolerations, "spec.tolerations")
    if spec.scheduling_gates and spec.node_name:
        reason = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", reason))
    errors += resource_lists.validate_quantities(spec.overhead, "spec.overhead")
    return errors + resource_lists.validate_pod_level(spec)


def _policies(spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value, supported in (
        ("restartPolicy", spec.restart_policy, ("Always", "OnFailure", "Never")),
        ("preemptionPolicy", spec.preemption_policy, ("PreemptLowerPriority", "Never")),
        (
            "dnsPolicy",
            spec.dns_policy,
            ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        ),
    ):
        errors += one_of(f"spec.{name}", value, supported)
    if spec.HasField("active_deadline_seconds"):
        seconds = spec.active_deadline_seconds
        if not 1 <= seconds < 2**31:
            reason = "must be between 1 and 2147483647, inclusive"
            errors.append(invalid("spec.activeDeadlineSeconds", seconds, reason))
    return errors


def _names(spec: PodSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in (
        ("nodeName", spec.node_name),
        ("schedulerName", spec.scheduler_name),
        ("priorityClassName", spec.priority_class_name),
        ("serviceAccountName", spec.service_account_name),
        ("runtimeClassName", spec.runtime_class_name),
    ):
        if value:
            path = f"spec.{name}"
            errors += [invalid(path, value, reason) for reason in dns1123_subdomain(value)]
    for name, value in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if value:
            errors += [invalid(f"spec.{name}", value, reason) for reason in dns1123_label(value)]
    if spec.HasField("scheduling_group"):
        errors += _scheduling_group(spec.scheduling_group)
    return errors


def _scheduling_group(group: PodSchedulingGroup) -> list[FieldError]:
    path, name = "spec.schedulingGroup.podGroupName", group.pod_group_name
    if not group.HasField("pod_group_name"):
        return [invalid(path, None, "must specify one of: `podGroupName`")]
    return [invalid(path, name, reason) for reason in dns1123_subdomain(name)]


# ---------------------------------------------------------------------------------- containers


def _containers(spec: PodSpec, volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not spec.containers:
        errors.append(required("spec.containers"))
    names: set[str] = set()
    host_ports: set[tuple[str, str, int]] = set()
    for group, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in bounded_items(f"spec.{group}", containers, errors):
            path = f"spec.{group}[{index}]"
            errors += _container(container, path, spec.host_network, volumes)
            if container.name in names:
                errors.append(duplicate(f"{path}.name", container.name))
            names.add(container.name)
            if group == "initContainers" and not is_sidecar(container):
                # Init containers run before the others: their ports are free again by then.
                errors += _unique_host_ports(container, path, set())
            else:
                errors += _unique_host_ports(container, path, host_ports)
    for index, container in enumerate(spec.init_containers[:MAX_ITEMS]):
        path = f"spec.initContainers[{index}].restartPolicy"
        if container.restart_policy and not is_sidecar(container):
            errors += one_of(path, container.restart_policy, ("Always", "OnFailure", "Never"))
    return errors


def _container(
    container: Container, path: str, host_network: bool, volumes: set[str]
) -> list[FieldError]:
    here, name = f"{path}.name", container.name
    errors = [invalid(here, name, r) for r in dns1123_label(name)] if name else [required(here)]
    if not container.image:
        errors.append(required(f"{path}.image"))
    elif container.image != container.image.strip():
        reason = "must not have leading or trailing whitespace"
        errors.append(invalid(f"{path}.image", container.image, reason))
    pull = ("Always", "IfNotPresent", "Never")
    errors += one_of(f"{path}.imagePullPolicy", container.image_pull_policy, pull)
    errors += _ports(container.ports, f"{path}.ports", host_network)
    errors += _environment(container, path)
    errors += _mounts(container, path, volumes)
    return errors + resource_lists.validate_requirements(container.resources, f"{path}.resources")


def _environment(container: Container, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in bounded_items(f"{path}.env", container.env, errors):
        here = f"{path}.env[{index}]"
        if not variable.name:
            errors.append(required(f"{here}.name"))
        if variable.value and variable.HasField("value_from"):
            reason = "may not be specified when `value` is not empty"
            errors.append(invalid(f"{here}.valueFrom", "", reason))
    return errors


def _mounts(container: Container, path: str, volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in bounded_items(f"{path}.volumeMounts", container.volume_mounts, errors):
        here = f"{path}.volumeMounts[{index}]"
        if not mount.name:
            errors.append(required(f"{here}.name"))
        elif mount.name not in volumes:
            errors.append(not_found(f"{here}.name", mount.name))
        if not mount.mount_path:
            errors.append(required(f"{here}.mountPath"))
        elif mount.mount_path in seen:
            reason = "must be unique"
            errors.append(invalid(f"{here}.mountPath", mount.mount_path, reason))
        seen.add(mount.mount_path)
    return errors


def _ports(ports: Sequence[ContainerPort], path: str, host_network: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in bounded_items(path, ports, errors):
        here = f"{path}[{index}]"
        if port.name:
            if port.name in names:
                errors.append(duplicate(f"{here}.name", port.name))
            names.add(port.name)
        if not port.container_port:
            errors.append(required(f"{here}.containerPort"))
        else:
            errors += _port_number(f"{here}.containerPort", port.container_port)
        if port.host_port:
            errors += _port_number(f"{here}.hostPort", port.host_port)
        if host_network and port.host_port != port.container_port:
            reason = "must match `containerPort` when `hostNetwork` is true"
            errors.append(invalid(f"{here}.hostPort", port.host_port, reason))
        errors += _protocol(f"{here}.protocol", port.protocol)
    return errors


def _protocol(path: str, protocol: str) -> list[FieldError]:
    if not protocol:
        return [required(path)]
    supported = ("TCP", "UDP", "SCTP")
    return [] if protocol in supported else [not_supported(path, protocol, supported)]


def _port_number(path: str, number: int) -> list[FieldError]:
    if 1 <= number <= _MAX_PORT:
        return []
    return [invalid(path, number, f"must be between 1 and {_MAX_PORT}, inclusive")]


def _unique_host_ports(
    container: Container, path: str, taken: set[tuple[str, str, int]]
) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, port in enumerate(container.ports[:MAX_ITEMS]):
        if not port.host_port:
            continue
        claim = (port.protocol, port.host_ip, port.host_port)
        if claim in taken:
            shown = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            errors.append(duplicate(f"{path}.ports[{index}].hostPort", shown))
        taken.add(claim)
    return errors


# ---------------------------------------------------------------------------------- volumes


def _volume_names(volumes: Sequence[Volume]) -> set[str]:
    return {volume.name for volume in volumes}


def _volumes(volumes: Sequence[Volume]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, volume in bounded_items("spec.volumes", volumes, errors):
        path = f"spec.volumes[{index}]"
        if not volume.name:
            errors.append(required(f"{path}.name"))
        else:
            errors += [invalid(f"{path}.name", volume.name, r) for r in dns1123_label(volume.name)]
            if volume.name in names:
                errors.append(duplicate(f"{path}.name", volume.name))
            names.add(volume.name)
        errors += _volume_source(volume, path)
    return errors


def _volume_source(volume: Volume, path: str) -> list[FieldError]:
    sources = [field.json_name for field, _ in volume.ListFields() if field.name != "name"]
    if not sources:
        return [required(path, "must specify a volume type")]
    errors: list[FieldError] = [
        forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
        for name in sources[1:]
    ]
    if volume.HasField("persistent_volume_claim"):
        claim = volume.persistent_volume_claim.claim_name
        here = f"{path}.persistentVolumeClaim.claimName"
        if not claim:
            errors.append(required(here))
        else:
            errors += [invalid(here, claim, reason) for reason in dns1123_subdomain(claim)]
    if volume.HasField("ephemeral") and not volume.ephemeral.HasField("volume_claim_template"):
        errors.append(required(f"{path}.ephemeral.volumeClaimTemplate"))
    return errors


# ---------------------------------------------------------------------------------- status


def validate_pod_status(pod: Pod) -> list[FieldError]:
    """Validate what an update of the status says."""
    errors: list[FieldError] = []
    status = pod.status
    conditions = status.conditions[:MAX_ITEMS]
    negative = [index for index, each in enumerate(conditions) if each.observed_generation < 0]
    for index in negative[:MOST_ERRORS]:
        path = f"status.conditions[{index}].observedGeneration"
        reason = "must be a non-negative integer"
        errors.append(invalid(path, conditions[index].observed_generation, reason))
    if status.nominated_node_name:
        path, value = "status.nominatedNodeName", status.nominated_node_name
        errors += [invalid(path, value, reason) for reason in dns1123_subdomain(value)]
    errors += one_of("status.phase", status.phase, _PHASES)
    found: list[FieldError] = []
    for index, condition in bounded_items("status.conditions", status.conditions, found):
        path = f"status.conditions[{index}]"
        found += [
            invalid(f"{path}.type", condition.type, r) for r in qualified_name(condition.type)
        ]
        found += one_of(f"{path}.status", condition.status, ("True", "False", "Unknown"))
    return errors + found
