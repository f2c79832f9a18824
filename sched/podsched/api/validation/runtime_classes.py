"""RuntimeClasses (pkg/apis/node/validation)."""

from __future__ import annotations

from podsched.api.field_errors import FieldError, invalid
from podsched.api.objects import ResourceRequirements, RuntimeClass
from podsched.api.validation.meta import IMMUTABLE, validate_labels
from podsched.api.validation.names import dns1123_label
from podsched.api.validation.placement import validate_tolerations
from podsched.api.validation.resource_lists import validate_requirements


def validate_runtime_class(item: RuntimeClass) -> list[FieldError]:
    """Validate handler, overhead and scheduling."""
    found = [invalid("handler", item.handler, reason) for reason in dns1123_label(item.handler)]
    if item.HasField("overhead"):
        limits = ResourceRequirements(limits=item.overhead.pod_fixed)
        found += validate_requirements(limits, "overhead")
    if item.HasField("scheduling"):
        scheduling = item.scheduling
        found += validate_labels(scheduling.node_selector, "scheduling.nodeSelector")
        found += validate_tolerations(scheduling.tolerations, "scheduling.tolerations")
    return found


def validate_runtime_class_update(item: RuntimeClass, old: RuntimeClass) -> list[FieldError]:
    """Validate that the handler stays."""
    if item.handler == old.handler:
        return []
    return [invalid("handler", item.handler, IMMUTABLE)]
