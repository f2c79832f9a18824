"""Admits objects before they are stored: sets defaults and priority, and validates.

Functions raise ApiError with all violations at once. Time, uid and looked-up objects are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.defaulting import (
    default_claim_status,
    default_object,
    default_queued_job,
    default_taint_rule,
)
from podsched.api.device_claims import ADMIN_ACCESS, admin_request, admin_result
from podsched.api.field_errors import FieldError, forbidden
from podsched.api.kinds import KINDS, Kind
from podsched.api.kubelet_defaults import set_kubelet_defaults
from podsched.api.limit_ranges import aggregate, claim_errors
from podsched.api.metadata_defaulting import BUILT_IN_NAMESPACES
from podsched.api.objects import (
    AnyObject,
    CertificateSigningRequest,
    DeviceTaintRule,
    Job,
    LimitRange,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceClaim,
    ResourceClaimTemplate,
    Service,
    ServiceAccount,
    copy_field,
    copy_of,
    timestamp,
)
from podsched.api.pod_admission import admit_pod, admit_resize
from podsched.api.pod_defaulting import add_default_tolerations, default_pod_spec, merge_label_keys
from podsched.api.pod_groups import admit_pod_group, drop_group_claims, template_refusal
from podsched.api.pod_parts import RESIZE
from podsched.api.priorities import PriorityClasses
from podsched.api.quantity_fields import are_same
from podsched.api.service_accounts import (
    DEFAULT_ACCOUNT,
    apply_service_account,
    is_mirror_pod,
    mirror_pod_refusal,
    set_default_account,
)
from podsched.api.services import complete_update
from podsched.api.storage_classes import names_class
from podsched.api.validation import validate, validate_status
from podsched.lib.groups import lists_by_key
from podsched.serve.server import errors
from podsched.serve.server.access.identity import caller
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.certificate_requests import (
    complete,
    keep_certificate,
    keep_decision,
    request_errors,
)

#: Max bytes of an object: etcd accepts requests of 1.5 MiB by default, including keys and compares.
MAX_OBJECT_BYTES = 1 << 20
#: Max LimitRanges of a namespace: each takes 30 us of every new pod.
MAX_LIMIT_RANGES = 32

_POD = KINDS["Pod"]


def admit_new(
    kind: Kind,
    message: AnyObject,
    *,
    now: float,
    uid: str,
    sources: AdmissionSources,
    of_kubernetes: bool,
) -> None:
    """Set the defaults of a new object, in place, and validate it.

    now: Unix time in seconds; of_kubernetes: it came through Kubernetes' API. Raises ApiError.
    """
    if not kind.namespaced and message.metadata.namespace:
        misplaced = forbidden("metadata.namespace", "not allowed on this type")
        raise errors.invalid_fields(kind, message.metadata.name, [misplaced])
    if kind.has_status and not kind.status_at_creation:
        message.ClearField("status")
    if isinstance(message, CertificateSigningRequest):
        complete(message, caller(), sources.requests_of_users())
    classes = sources.priority_classes()
    found = default_object(message, now=now, uid=uid, priority_classes=classes)
    if isinstance(message, Job):
        default_queued_job(message)
    _check_policies(kind, message, sources)
    mounts = isinstance(message, Pod) and sources.mounts_tokens(of_kubernetes=of_kubernetes)
    account = None
    if mounts and isinstance(message, Pod):
        # Also through gRPC: a kubelet does not start a pod without them.
        set_kubelet_defaults(message)
        account = _account_of(message, sources)
    found += _errors_in(kind, message, sources)
    if found:
        raise errors.invalid_fields(kind, message.metadata.name, found)
    if isinstance(message, PodGroup):
        why = template_refusal(message, sources.workload_of(message))
        if why:
            raise errors.forbidden(kind, message.metadata.name, why)
    if mounts and isinstance(message, Pod) and not is_mirror_pod(message):
        # After the validation: it remembers equal specs, and the volume's name is the pod's own.
        apply_service_account(message, account)


def _errors_in(kind: Kind, message: AnyObject, sources: AdmissionSources) -> list[FieldError]:
    """Return the errors in a new object that has its defaults."""
    found: list[FieldError] = []
    if isinstance(message, PriorityClass):
        found += sources.priority_classes().default_conflict(message)
    if isinstance(message, ResourceClaim | ResourceClaimTemplate):
        found += _admin_errors(message.metadata.namespace, admin_request(message), sources)
    if isinstance(message, Pod) and message.spec.ephemeral_containers:
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    found += validate(kind, message)
    if isinstance(message, CertificateSigningRequest) and not found:
        found += request_errors(message)
    return found


def admit_update(
    kind: Kind,
    message: AnyObject,
    old: AnyObject,
    *,
    now: float,
    sources: AdmissionSources,
    part: str = "",
) -> None:
    """Set the defaults of an object that replaces ``old``, in place, and validate it.

    It gets the status of ``old`` and those metadata that clients cannot change. now: Unix time in
    seconds; part: the subresource of an update of a part of a pod. Raises ApiError.
    """
    classes = sources.priority_classes()
    default_update(message, old, now, classes)
    _check_policies(kind, message, sources, old, part)
    _keep_metadata(message, old)
    if isinstance(message, Namespace) and isinstance(old, Namespace):
        message.spec.finalizers[:] = old.spec.finalizers
    if kind.has_status:
        copy_field(message, old, "status")
    if not are_same(_without_metadata(message), _without_metadata(old)):
        message.metadata.generation = old.metadata.generation + 1
    found = validate(kind, message, old, part)
    if isinstance(message, PriorityClass):
        found += classes.default_conflict(message)
    if found:
        raise errors.invalid_fields(kind, message.metadata.name, found)


def _check_policies(
    kind: Kind,
    message: AnyObject,
    sources: AdmissionSources,
    old: AnyObject | None = None,
    part: str = "",
) -> None:
    """Apply LimitRanges, RuntimeClass and the server's settings to an object, in place.

    old, part: of an update, as for ``admit_update``. Raises ApiError if they forbid it.
    """
    metadata = message.metadata
    why = ""
    if not sources.pod_group_claims:
        drop_group_claims(message, old)
    if isinstance(message, Pod):
        # An update cannot change the runtime class; of containers, a resize alone can.
        if old is None:
            runtime = sources.runtime_class(message.spec.runtime_class_name)
            why = admit_pod(message, _limit_ranges(kind, message, sources), runtime)
        elif part == RESIZE and not old.metadata.HasField("deletion_timestamp"):
            why = admit_resize(message, _limit_ranges(kind, message, sources))
    elif isinstance(message, PodGroup):
        why = admit_pod_group(message, sources.priority_classes()) if old is None else ""
    elif isinstance(message, PersistentVolumeClaim):
        before = old if isinstance(old, PersistentVolumeClaim) else None
        default = "" if before or names_class(message) else sources.default_storage_class()
        if default:
            message.spec.storage_class_name = default
        resources = message.spec.resources
        if before is None or before.spec.resources.requests != resources.requests:
            ranges = _limit_ranges(kind, message, sources)
            why = aggregate(claim_errors(message, ranges, before))
    if why:
        raise errors.forbidden(kind, metadata.name, why)


def _limit_ranges(
    kind: Kind, message: AnyObject, sources: AdmissionSources
) -> Sequence[LimitRange]:
    """Return the LimitRanges of an object's namespace. Raises ApiError if there are too many."""
    metadata = message.metadata
    ranges = sources.limit_ranges(metadata.namespace)
    if len(ranges) > MAX_LIMIT_RANGES:
        many = f"the namespace has {len(ranges)} LimitRanges"
        why = f"{many}, at most {MAX_LIMIT_RANGES} are supported; delete some of them"
        raise errors.forbidden(kind, metadata.name, why)
    return ranges


def _account_of(pod: Pod, sources: AdmissionSources) -> ServiceAccount | None:
    """Return a new pod's ServiceAccount, and set its name; None if it is still to be made.

    Raises ApiError for an account that does not exist, and for a mirror pod with one.
    """
    if is_mirror_pod(pod):
        if why := mirror_pod_refusal(pod):
            raise errors.forbidden(_POD, pod.metadata.name, why)
        return None
    namespace, name = pod.metadata.namespace, set_default_account(pod)
    account = sources.service_account(namespace, name)
    # The leader makes the default account of a new namespace; its pods need not wait for it.
    if account is None and name != DEFAULT_ACCOUNT:
        why = (
            f"error looking up service account {namespace}/{name}: "
            f'serviceaccount "{name}" not found'
        )
        raise errors.forbidden(_POD, pod.metadata.name, why)
    return account


def _admin_errors(namespace: str, path: str, sources: AdmissionSources) -> list[FieldError]:
    """Return an error if a claim's namespace does not permit the admin access at ``path``.

    path: "" if the claim has no admin access.
    """
    if not path or sources.permits_admin_access(namespace):
        return []
    text = f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing "
    return [forbidden(path, f"{text}namespace")]


def admit_status(
    kind: Kind,
    message: AnyObject,
    old: AnyObject,
    *,
    now: float,
    sources: AdmissionSources,
    approval: bool = False,
) -> AnyObject:
    """Return ``old`` with the status of ``message``, validated; metadata and spec are kept.

    now: Unix time in seconds; approval: of a certificate request only the decision is written, and
    otherwise all but the decision. Raises ApiError.
    """
    if not kind.has_status:
        raise errors.bad_request(f"{kind.resource} have no status", "kind")
    updated = copy_of(old)
    copy_field(updated, message, "status")
    if isinstance(updated, PersistentVolume) and isinstance(old, PersistentVolume):
        _note_phase(updated, old, now)
    if isinstance(updated, Pod) and isinstance(old, Pod):
        _keep_observed_generations(updated.status, old.status)
    if isinstance(updated, CertificateSigningRequest) and isinstance(
        old, CertificateSigningRequest
    ):
        keep = keep_certificate if approval else keep_decision
        keep(updated, old, now)
    found: list[FieldError] = []
    if isinstance(updated, ResourceClaim) and isinstance(old, ResourceClaim):
        default_claim_status(updated, old)
        path = "" if admin_result(old) else admin_result(updated)
        found += _admin_errors(old.metadata.namespace, path, sources)
    found += validate_status(kind, updated, old)
    if found:
        raise errors.invalid_fields(kind, updated.metadata.name, found)
    return updated


def _note_phase(volume: PersistentVolume, old: PersistentVolume, now: float) -> None:
    """Set the time of a volume's last phase transition if its phase has changed.

    Source: persistentvolumeStatusStrategy.PrepareForUpdate of pkg/registry/core/persistentvolume.
    """
    new, before = volume.status, old.status
    same = new.last_phase_transition_time == before.last_phase_transition_time
    if new.phase != before.phase and (same or not new.HasField("last_phase_transition_time")):
        new.last_phase_transition_time.CopyFrom(timestamp(now, whole=True))
    elif not new.HasField("last_phase_transition_time"):
        copy_field(new, before, "last_phase_transition_time")


def _keep_observed_generations(new: PodStatus, old: PodStatus) -> None:
    """Keep what the status and its conditions said of generations, where they say nothing now.

    Source: preserveOldObservedGeneration of pkg/registry/core/pod.
    """
    new.observed_generation = new.observed_generation or old.observed_generation
    # There may be several conditions of a type.
    before = lists_by_key((each.type, each.observed_generation) for each in old.conditions)
    for condition in new.conditions:
        known = before.get(condition.type)
        generation = known.pop(0) if known else 0
        condition.observed_generation = condition.observed_generation or generation


def encoded(kind: Kind, message: AnyObject) -> bytes:
    """Serialize an object for storage. Raises ApiError if it exceeds MAX_OBJECT_BYTES."""
    value = message.SerializeToString()
    if len(value) > MAX_OBJECT_BYTES:
        raise errors.too_large(
            f"{errors.named(kind, message.metadata.name)} is too large: {len(value)} bytes, "
            f"the limit is {MAX_OBJECT_BYTES}"
        )
    return value


def check_deletable(kind: Kind, name: str) -> None:
    """Raise ApiError for a namespace or PriorityClass that every cluster must have."""
    if kind.name == "Namespace" and name in BUILT_IN_NAMESPACES:
        raise errors.forbidden(kind, name, "this namespace may not be deleted")
    if kind.name == "PriorityClass" and name.startswith("system-"):
        raise errors.forbidden(kind, name, "this is a system priority class and cannot be deleted")


def default_update(
    message: AnyObject, old: AnyObject, now: float, classes: PriorityClasses
) -> None:
    """Set the defaults of an object that replaces ``old``, in place. now: Unix time in seconds."""
    if not isinstance(message, Pod):
        default_object(message, now=now, uid=old.metadata.uid, priority_classes=classes)
        if isinstance(message, DeviceTaintRule) and isinstance(old, DeviceTaintRule):
            default_taint_rule(message, old, now)
        if isinstance(message, Service) and isinstance(old, Service):
            complete_update(message.spec, old.spec)
        if isinstance(message, CertificateSigningRequest):
            # As in Kubernetes: an update that says another has no effect, and is no mistake.
            copy_field(message, old, "spec")
        return
    assert isinstance(old, Pod)
    if message.spec == old.spec:
        return
    default_pod_spec(message.spec)
    add_default_tolerations(message.spec)
    # Unless they are as stored: the pod may have got other labels since it was created.
    if _selecting(message.spec) != _selecting(old.spec):
        merge_label_keys(message.spec, old.metadata.labels)
    # Priority is resolved at creation; an update without one keeps it.
    if not message.spec.HasField("priority") and old.spec.HasField("priority"):
        message.spec.priority = old.spec.priority
    for field in ("preemption_policy", "priority_class_name"):
        if not getattr(message.spec, field):
            setattr(message.spec, field, getattr(old.spec, field))


def _selecting(spec: PodSpec) -> tuple[object, ...]:
    """Return the parts of a spec that select other pods."""
    affinity = spec.affinity
    return (affinity.pod_affinity, affinity.pod_anti_affinity, *spec.topology_spread_constraints)


def _keep_metadata(message: AnyObject, old: AnyObject) -> None:
    """Set the metadata that an update cannot change to those of the stored object."""
    new, before = message.metadata, old.metadata
    new.namespace = before.namespace
    new.uid = new.uid or before.uid
    new.generation = before.generation
    new.generate_name = before.generate_name
    new.resource_version = ""
    for field in ("creation_timestamp", "deletion_timestamp", "deletion_grace_period_seconds"):
        copy_field(new, before, field)


def _without_metadata(message: AnyObject) -> AnyObject:
    """Return a copy without metadata and status: the part whose changes increase the generation."""
    status = ["status"] if "status" in message.DESCRIPTOR.fields_by_name else []
    return copy_of(message, without=("metadata", *status))
