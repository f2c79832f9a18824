"""Services and the owners of pods, as far as spreading reads them."""

from __future__ import annotations

from podsched.api.codec import write
from podsched.api.field_errors import FieldError, invalid, required
from podsched.api.objects import (
    ControllerRevision,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from podsched.api.selectors import compile_selector, from_labels
from podsched.api.validation.meta import (
    IMMUTABLE,
    bounded_items,
    not_negative,
    one_of,
    validate_label_selector,
    validate_labels,
)

_MISMATCH = "`selector` does not match template `labels`"


def validate_service(item: Service) -> list[FieldError]:
    """Validate ports, type and selector."""
    spec = item.spec
    errors = validate_labels(spec.selector, "spec.selector")
    if not spec.ports and spec.type != "ExternalName" and spec.cluster_ip != "None":
        errors.append(required("spec.ports"))
    for index, port in bounded_items("spec.ports", spec.ports, errors):
        path = f"spec.ports[{index}]"
        if not 1 <= port.port <= 65535:
            reason = "must be between 1 and 65535, inclusive"
            errors.append(invalid(f"{path}.port", port.port, reason))
        errors += one_of(f"{path}.protocol", port.protocol, ("TCP", "UDP", "SCTP"))
    types = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    return errors + one_of("spec.type", spec.type, types)


def validate_replicated(item: ReplicaSet | StatefulSet) -> list[FieldError]:
    """Check replicas, and that the selector selects the pods of the template."""
    spec = item.spec
    errors = not_negative("spec.replicas", spec.replicas)
    selector = spec.selector
    if not spec.HasField("selector") or not (selector.match_labels or selector.match_expressions):
        return [*errors, required("spec.selector")]
    wrong = validate_label_selector(selector, "spec.selector")
    labels = spec.template.metadata.labels
    errors += wrong + validate_labels(labels, "spec.template.metadata.labels")
    if not wrong and not compile_selector(selector).matches(labels):
        errors.append(invalid("spec.template.metadata.labels", dict(labels), _MISMATCH))
    return errors


def validate_replication_controller(item: ReplicationController) -> list[FieldError]:
    """Check replicas, and that the selector selects the pods of the template, if there is one."""
    spec = item.spec
    errors = not_negative("spec.replicas", spec.replicas)
    if not spec.selector:
        return [*errors, required("spec.selector")]
    errors += validate_labels(spec.selector, "spec.selector")
    labels = spec.template.metadata.labels
    if spec.HasField("template") and not from_labels(spec.selector).matches(labels):
        errors.append(invalid("spec.template.metadata.labels", dict(labels), _MISMATCH))
    return errors


def validate_selector_update(
    new: ReplicaSet | StatefulSet, old: ReplicaSet | StatefulSet
) -> list[FieldError]:
    """Check that the selector stays: it says to which owner pods belong."""
    if new.spec.selector == old.spec.selector:
        return []
    return [invalid("spec.selector", "", IMMUTABLE)]


def validate_controller_revision(item: ControllerRevision) -> list[FieldError]:
    """Check that there is a state, and that its number is not negative."""
    errors = [] if item.HasField("data") else [required("data", "data is mandatory")]
    return errors + not_negative("revision", item.revision)


def validate_controller_revision_update(
    new: ControllerRevision, old: ControllerRevision
) -> list[FieldError]:
    """Check that the state stays: it is what a controller goes back to."""
    return [] if new.data == old.data else [invalid("data", write(new).get("data"), IMMUTABLE)]
