"""Volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api import objects as o
from podsched.api import quantity
from podsched.api.codec import write
from podsched.api.names import dns1123_subdomain
from podsched.api.quantity_fields import are_same
from podsched.api.validation.meta import validate_label_selector
from podsched.api.validation.place import IMMUTABLE, MAX_ITEMS, Place
from podsched.api.validation.placement import validate_node_selector
from podsched.api.validation.resource_lists import (
    not_negative,
    parse_or_report,
    validate_quantities,
)

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MODES = ("Block", "Filesystem")
#: The class of the attributes that a claim wants and a volume has.
_ATTRIBUTES = "volume_attributes_class_name"
# Every member of PersistentVolumeSpec from this number on is a source of the volume.
_FIRST_SOURCE = 10


def _access_modes(at: Place, modes: Sequence[str], reason: str = "") -> None:
    at.present(modes, reason)
    for _, mode in at.each(modes):
        at.one_of(mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        at.forbidden("may not use ReadWriteOncePod with other access modes")


def volume_sources(spec: o.PersistentVolumeSpec) -> list[str]:
    """Return the kinds of volume that a spec names; there should be one."""
    found = [field.json_name for field, _ in spec.ListFields() if field.number >= _FIRST_SOURCE]
    return sorted(
        found, key=lambda name: (name == "csi", name != "hostPath")
    )  # as Kubernetes looks


def one_volume_type(at: Place, names: Sequence[str]) -> None:
    """Check that a volume has one source; ``names``: the fields of those that it has."""
    at.present(names, "must specify a volume type")
    for name in names[1:]:
        at(name).forbidden("may not specify more than 1 volume type")


def validate_persistent_volume(at: Place, item: o.PersistentVolume) -> None:
    """Validate capacity, access modes, source, reclaim policy and node affinity."""
    spec, at = item.spec, at("spec")
    _access_modes(at("accessModes"), spec.access_modes)
    capacity = at("capacity")
    capacity.present(spec.capacity)
    if [*spec.capacity] != ["storage"]:
        capacity.not_supported(dict(spec.capacity) or None, ("storage",))
    validate_quantities(capacity, spec.capacity)
    policies = ("Delete", "Recycle", "Retain")
    at("persistentVolumeReclaimPolicy").one_of(spec.persistent_volume_reclaim_policy, policies)
    at("volumeMode").one_of(spec.volume_mode, _MODES)
    sources = volume_sources(spec)
    one_volume_type(at, sources)
    if spec.HasField("node_affinity"):
        validate_node_selector(at("nodeAffinity.required"), spec.node_affinity.required)
    elif "local" in sources:
        at("nodeAffinity").required("Local volume requires node affinity")
    at("storageClassName").optional_name(spec.storage_class_name, dns1123_subdomain)


def validate_persistent_volume_update(
    at: Place, new: o.PersistentVolume, old: o.PersistentVolume
) -> None:
    """Check that the source stays, and the node affinity once it is set.

    The secret for expansion may be given late. Two of the paths are Kubernetes' own.
    """
    comparable, secret = o.copy_of(new.spec), "controller_expand_secret_ref"
    if comparable.HasField("csi") and not old.spec.csi.HasField(secret):
        comparable.csi.ClearField(secret)
    sources = [f for f in o.PersistentVolumeSpec.DESCRIPTOR.fields if f.number >= _FIRST_SOURCE]
    if any(getattr(comparable, f.name) != getattr(old.spec, f.name) for f in sources):
        reason = "spec.persistentvolumesource is immutable after creation"
        at("spec.persistentvolumesource").forbidden(reason)
    mode = new.spec.volume_mode
    at("volumeMode").fixed(mode, old.spec.volume_mode, mode)
    if old.spec.HasField("node_affinity") and new.spec.node_affinity != old.spec.node_affinity:
        reason = f"{IMMUTABLE}, except for updating from beta label to GA"
        at("nodeAffinity").invalid(write(new.spec.node_affinity), reason)
    if old.spec.HasField(_ATTRIBUTES) and not new.spec.HasField(_ATTRIBUTES):
        reason = "update from non-nil value to nil is forbidden"
        at("spec.volumeAttributesClassName").forbidden(reason)


def validate_persistent_volume_claim(at: Place, item: o.PersistentVolumeClaim) -> None:
    """Validate access modes, the requested storage, selector and class."""
    spec, at = item.spec, at("spec")
    _access_modes(at("accessModes"), spec.access_modes, "at least 1 access mode is required")
    text = spec.resources.requests.get("storage")
    storage = at("resources")["storage"]
    if text is None:
        storage.required()
    else:
        amount = parse_or_report(storage, text)
        if amount is not None and amount <= 0:
            storage.invalid(text, "must be greater than zero")
    at("volumeMode").one_of(spec.volume_mode, _MODES)
    validate_label_selector(at("selector"), spec.selector)
    at("storageClassName").optional_name(spec.storage_class_name, dns1123_subdomain)


def validate_persistent_volume_claim_update(
    at: Place, new: o.PersistentVolumeClaim, old: o.PersistentVolumeClaim
) -> None:
    """Check that the spec stays, but for the binding, a class given late, size and attributes."""
    comparable = o.copy_of(new.spec)
    if not old.spec.volume_name:
        comparable.volume_name = ""
    if not old.spec.HasField("storage_class_name"):
        comparable.ClearField("storage_class_name")
    if old.status.phase == "Bound":
        comparable.resources.requests["storage"] = old.spec.resources.requests.get("storage", "")
        o.copy_field(comparable, old.spec, _ATTRIBUTES)
    if not are_same(comparable, old.spec):
        at("spec").forbidden(
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
    if _shrinks_too_far(new, old):
        storage = at("spec.resources.requests.storage")
        storage.forbidden("field can not be less than status.capacity")
    name, is_set = new.spec.volume_attributes_class_name, new.spec.HasField(_ATTRIBUTES)
    before = (old.spec.volume_attributes_class_name, old.spec.HasField(_ATTRIBUTES))
    applied = old.status.HasField("current_volume_attributes_class_name")
    if applied and not name and (name, is_set) != before:
        at("spec.volumeAttributesClassName").forbidden(
            f"update to {'empty string' if is_set else 'nil'} is forbidden when "
            "status.currentVolumeAttributesClassName is not nil"
        )


def _shrinks_too_far(new: o.PersistentVolumeClaim, old: o.PersistentVolumeClaim) -> bool:
    """Return whether a claim asks for less than before, and for no more than its volume has.

    One whose volume could not be expanded may ask for less again.
    """
    sizes = (new.spec.resources.requests, old.spec.resources.requests, old.status.capacity)
    try:
        wanted, before, has = (quantity.parse(size.get("storage", "0")) for size in sizes)
    except quantity.QuantityError:
        return False  # The error is told with the quantity.
    return wanted < before and wanted <= has


def validate_storage_class(at: Place, item: o.StorageClass) -> None:
    """Validate provisioner, policies and topologies."""
    at("provisioner").present(item.provisioner)
    at("reclaimPolicy").one_of(item.reclaim_policy, ("Delete", "Retain"))
    modes = ("Immediate", "WaitForFirstConsumer")
    at("volumeBindingMode").one_of(item.volume_binding_mode, modes)
    at("allowedTopologies").bounded(item.allowed_topologies)


def validate_csi_node(at: Place, item: o.CSINode) -> None:
    """Check drivers: each once, with a name and a node id, counts not negative."""
    seen: set[str] = set()
    for each, driver in at("spec.drivers").each(item.spec.drivers):
        if each("name").present(driver.name):
            each("name").once(driver.name, seen)
        each("nodeID").present(driver.node_id)
        each("allocatable.count").least(driver.allocatable.count)


def validate_csi_node_update(at: Place, new: o.CSINode, old: o.CSINode) -> None:
    """Check that drivers which stay keep all but their number of volumes."""
    before = {driver.name: driver for driver in old.spec.drivers}
    for driver in new.spec.drivers[:MAX_ITEMS]:
        now, then = (
            o.copy_of(each, without=("allocatable",))
            for each in (driver, before.get(driver.name, driver))
        )
        at("spec.drivers").fixed(now, then, write(now))


def validate_csi_driver(at: Place, item: o.CSIDriver) -> None:
    """Validate when files get their group, and how long volumes last."""
    policies = ("File", "None", "ReadWriteOnceWithFSType")
    at("spec.fsGroupPolicy").one_of(item.spec.fs_group_policy, policies)
    modes, known = at("spec.volumeLifecycleModes"), ("Persistent", "Ephemeral")
    for _, mode in modes.each(item.spec.volume_lifecycle_modes):
        if mode not in known:
            modes.not_supported(mode, known)


def validate_csi_driver_update(at: Place, new: o.CSIDriver, old: o.CSIDriver) -> None:
    """Check that what volumes are attached and mounted by stays."""
    now, before = new.spec, old.spec
    # The first path is Kubernetes' own.
    at("spec.attachedRequired").fixed(
        now.attach_required, before.attach_required, now.attach_required
    )
    modes = list(now.volume_lifecycle_modes)
    at("spec.volumeLifecycleModes").fixed(modes, list(before.volume_lifecycle_modes), modes)


def validate_csi_storage_capacity(at: Place, item: o.CSIStorageCapacity) -> None:
    """Check that there is a class, and that capacities are not negative."""
    at("storageClassName").present(item.storage_class_name)
    for name, present, text in (
        ("capacity", item.HasField("capacity"), item.capacity),
        ("maximumVolumeSize", item.HasField("maximum_volume_size"), item.maximum_volume_size),
    ):
        if present:
            not_negative(at(name), text)
    validate_label_selector(at("nodeTopology"), item.node_topology)


def validate_volume_attachment(at: Place, item: o.VolumeAttachment) -> None:
    """Validate attacher, node and source."""
    source, at = item.spec.source, at("spec")
    at("attacher").present(item.spec.attacher)
    at("nodeName").present(item.spec.node_name)
    if not (source.HasField("persistent_volume_name") or source.HasField("inline_volume_spec")):
        reason = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        at("source").required(reason)
