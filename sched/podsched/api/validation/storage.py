"""Volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from podsched.api.objects import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    VolumeAttachment,
)
from podsched.api.validation.meta import (
    IMMUTABLE,
    bounded,
    bounded_items,
    not_negative,
    one_of,
    validate_label_selector,
)
from podsched.api.validation.names import dns1123_subdomain
from podsched.api.validation.placement import validate_node_selector
from podsched.api.validation.resource_lists import parse_or_report, validate_quantities

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_RECLAIM = ("Delete", "Retain")
_MODES = ("Block", "Filesystem")
# Every member of PersistentVolumeSpec from this number on is a source of the volume.
_FIRST_SOURCE = 10


def _access_modes(modes: Sequence[str], path: str, reason: str = "") -> list[FieldError]:
    errors: list[FieldError] = []
    if not modes:
        errors.append(required(path, reason))
    for _, mode in bounded_items(path, modes, errors):
        errors += one_of(path, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        reason = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(path, reason))
    return errors


def volume_sources(spec: PersistentVolumeSpec) -> list[str]:
    """Return the kinds of volume that a spec names; there should be one."""
    found = [field.json_name for field, _ in spec.ListFields() if field.number >= _FIRST_SOURCE]
    return sorted(
        found, key=lambda name: (name == "csi", name != "hostPath")
    )  # as Kubernetes looks


def validate_volume(item: PersistentVolume) -> list[FieldError]:
    """Validate capacity, access modes, source, reclaim policy and node affinity."""
    spec = item.spec
    errors = _access_modes(spec.access_modes, "spec.accessModes")
    if not spec.capacity:
        errors.append(required("spec.capacity"))
    if [*spec.capacity] != ["storage"]:
        errors.append(not_supported("spec.capacity", dict(spec.capacity) or None, ("storage",)))
    errors += validate_quantities(spec.capacity, "spec.capacity")
    policy = "spec.persistentVolumeReclaimPolicy"
    errors += one_of(policy, spec.persistent_volume_reclaim_policy, _RECLAIM)
    errors += one_of("spec.volumeMode", spec.volume_mode, _MODES)
    sources = volume_sources(spec)
    if not sources:
        errors.append(required("spec", "must specify a volume type"))
    reason = "may not specify more than 1 volume type"
    errors += [forbidden(f"spec.{name}", reason) for name in sources[1:]]
    if spec.HasField("node_affinity"):
        errors += validate_node_selector(spec.node_affinity.required, "spec.nodeAffinity.required")
    elif "local" in sources:
        reason = "Local volume requires node affinity"
        errors.append(required("spec.nodeAffinity", reason))
    return errors + _class_name(spec.storage_class_name)


def _class_name(name: str) -> list[FieldError]:
    if not name:
        return []
    return [invalid("spec.storageClassName", name, r) for r in dns1123_subdomain(name)]


def validate_volume_update(new: PersistentVolume, old: PersistentVolume) -> list[FieldError]:
    """Check that the source stays, and the node affinity once it is set."""
    errors = []
    sources = [f for f in PersistentVolumeSpec.DESCRIPTOR.fields if f.number >= _FIRST_SOURCE]
    if any(getattr(new.spec, f.name) != getattr(old.spec, f.name) for f in sources):
        reason = "spec.persistentvolumesource is immutable after creation"
        errors.append(forbidden("spec.persistentvolumesource", reason))
    if new.spec.volume_mode != old.spec.volume_mode:
        errors.append(invalid("spec.volumeMode", new.spec.volume_mode, IMMUTABLE))
    affinity_set = old.spec.HasField("node_affinity")
    if affinity_set and new.spec.node_affinity != old.spec.node_affinity:
        errors.append(invalid("spec.nodeAffinity", "", IMMUTABLE))
    return errors


def validate_claim(item: PersistentVolumeClaim) -> list[FieldError]:
    """Validate access modes, the requested storage, selector and class."""
    spec = item.spec
    modes = "at least 1 access mode is required"
    errors = _access_modes(spec.access_modes, "spec.accessModes", modes)
    path = "spec.resources[storage]"
    text = spec.resources.requests.get("storage")
    if text is None:
        errors.append(required(path))
    else:
        amount = parse_or_report(path, text, errors)
        if amount is not None and amount <= 0:
            errors.append(invalid(path, text, "must be greater than zero"))
    errors += one_of("spec.volumeMode", spec.volume_mode, _MODES)
    if spec.HasField("selector"):
        errors += validate_label_selector(spec.selector, "spec.selector")
    return errors + _class_name(spec.storage_class_name)


def validate_claim_update(
    new: PersistentVolumeClaim, old: PersistentVolumeClaim
) -> list[FieldError]:
    """Check that the spec stays, but for the binding, a class given late, and growth."""
    comparable = PersistentVolumeClaimSpec()
    comparable.CopyFrom(new.spec)
    if not old.spec.volume_name:
        comparable.volume_name = ""
    if not old.spec.HasField("storage_class_name"):
        comparable.ClearField("storage_class_name")
    if old.status.phase == "Bound":
        comparable.resources.CopyFrom(old.spec.resources)
    if comparable == old.spec:
        return []
    reason = (
        "spec is immutable after creation except resources.requests and "
        "volumeAttributesClassName for bound claims"
    )
    return [forbidden("spec", reason)]


def validate_storage_class(item: StorageClass) -> list[FieldError]:
    """Validate provisioner, policies and topologies."""
    errors: list[FieldError] = []
    if not item.provisioner:
        errors.append(required("provisioner"))
    errors += one_of("reclaimPolicy", item.reclaim_policy, _CLASS_RECLAIM)
    modes = ("Immediate", "WaitForFirstConsumer")
    errors += one_of("volumeBindingMode", item.volume_binding_mode, modes)
    return errors + bounded("allowedTopologies", item.allowed_topologies)


def validate_storage_class_update(new: StorageClass, old: StorageClass) -> list[FieldError]:
    """Check that nothing changes by which volumes have been made already."""
    errors: list[FieldError] = []
    if new.parameters != old.parameters:
        errors.append(forbidden("parameters", "updates to parameters are forbidden."))
    for path, now, before in (
        ("provisioner", new.provisioner, old.provisioner),
        ("reclaimPolicy", new.reclaim_policy, old.reclaim_policy),
        ("volumeBindingMode", new.volume_binding_mode, old.volume_binding_mode),
    ):
        if now != before:
            errors.append(invalid(path, now, IMMUTABLE))
    return errors


def validate_csi_node(item: CSINode) -> list[FieldError]:
    """Check drivers: each once, with a name and a node id, counts not negative."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, driver in bounded_items("spec.drivers", item.spec.drivers, errors):
        path = f"spec.drivers[{index}]"
        if not driver.name:
            errors.append(required(f"{path}.name"))
        elif driver.name in seen:
            errors.append(duplicate(f"{path}.name", driver.name))
        seen.add(driver.name)
        if not driver.node_id:
            errors.append(required(f"{path}.nodeID"))
        errors += not_negative(f"{path}.allocatable.count", driver.allocatable.count)
    return errors


def validate_storage_capacity(item: CSIStorageCapacity) -> list[FieldError]:
    """Check that there is a class, and that capacities are not negative."""
    errors: list[FieldError] = []
    if not item.storage_class_name:
        errors.append(required("storageClassName"))
    for path, present, text in (
        ("capacity", item.HasField("capacity"), item.capacity),
        ("maximumVolumeSize", item.HasField("maximum_volume_size"), item.maximum_volume_size),
    ):
        amount = parse_or_report(path, text, errors) if present else None
        if amount is not None and amount < 0:
            errors.append(invalid(path, text, "must be greater than or equal to 0"))
    if item.HasField("node_topology"):
        errors += validate_label_selector(item.node_topology, "nodeTopology")
    return errors


def validate_attachment(item: VolumeAttachment) -> list[FieldError]:
    """Validate attacher, node and source."""
    spec = item.spec
    errors: list[FieldError] = []
    if not spec.attacher:
        errors.append(required("spec.attacher"))
    if not spec.node_name:
        errors.append(required("spec.nodeName"))
    named = spec.source.HasField("persistent_volume_name")
    inline = spec.source.HasField("inline_volume_spec")
    if not named and not inline:
        reason = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        errors.append(required("spec.source", reason))
    return errors
