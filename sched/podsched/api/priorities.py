"""Priority admission: which priority and preemption policy a pod gets from its PriorityClass.

Source: k8s.io/kubernetes/plugin/pkg/admission/priority and pkg/apis/scheduling.
"""

from __future__ import annotations

from collections.abc import Iterable

from podsched.api.field_errors import FieldError, forbidden
from podsched.api.objects import PodSpec, PriorityClass

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
PREEMPT_NEVER = "Never"
HIGHEST_USER_DEFINABLE_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {
    "system-cluster-critical": 2 * HIGHEST_USER_DEFINABLE_PRIORITY,
    "system-node-critical": 2 * HIGHEST_USER_DEFINABLE_PRIORITY + 1000,
}
#: The descriptions as in Kubernetes.
_DESCRIPTIONS = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, but "
    "can be moved to another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their "
    "current node.",
}


def system_priority_classes() -> list[PriorityClass]:
    """Return the classes that exist in every cluster."""
    classes = []
    for name, value in SYSTEM_CLASSES.items():
        item = PriorityClass(
            value=value, preemption_policy=PREEMPT_LOWER_PRIORITY, description=_DESCRIPTIONS[name]
        )
        item.metadata.name = name
        classes.append(item)
    return classes


class PriorityClasses:
    """The PriorityClasses of a cluster, the built-in ones included; rebuilt when one changes."""

    def __init__(self, classes: Iterable[PriorityClass] = ()) -> None:
        self._classes = {item.metadata.name: item for item in system_priority_classes()}
        self._classes.update({item.metadata.name: item for item in classes})
        defaults = [item for item in self._classes.values() if item.global_default]
        # Should there be several, the lowest is taken, as in Kubernetes.
        self.default = min(defaults, key=lambda item: item.value, default=None)

    def get(self, name: str) -> PriorityClass | None:
        """Return the class of this name, the default one for ""."""
        return self._classes.get(name) if name else self.default

    def default_conflict(self, candidate: PriorityClass) -> list[FieldError]:
        """Return an error when another class is the global default already."""
        taken = self.default
        if not candidate.global_default or taken is None:
            return []
        if taken.metadata.name == candidate.metadata.name:
            return []
        reason = (
            f"PriorityClass {taken.metadata.name} is already marked as default. "
            "Only one default can exist"
        )
        return [forbidden("globalDefault", reason)]

    def admit(self, spec: PodSpec) -> list[FieldError]:
        """Fill in priority, priorityClassName and preemptionPolicy; return what forbids it."""
        name = spec.priority_class_name
        chosen = self.get(name)
        if name and chosen is None:
            reason = f"no PriorityClass with name {name} was found"
            return [forbidden("spec.priorityClassName", reason)]
        value = chosen.value if chosen is not None else 0
        policy = (chosen.preemption_policy if chosen is not None else "") or PREEMPT_LOWER_PRIORITY
        errors = _conflicts(spec, value, policy)
        if not errors:
            spec.priority = value
            spec.preemption_policy = policy
            if chosen is not None:
                spec.priority_class_name = chosen.metadata.name
        return errors


def _conflicts(spec: PodSpec, value: int, policy: str) -> list[FieldError]:
    errors = []
    source = "priority admission controller computed {} from the given PriorityClass name"
    if spec.HasField("priority") and spec.priority != value:
        reason = (
            f"the integer value of priority ({spec.priority}) must not be provided in pod spec; "
            + source.format(value)
        )
        errors.append(forbidden("spec.priority", reason))
    if spec.preemption_policy and spec.preemption_policy != policy:
        reason = (
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be "
            f"provided in pod spec; {source.format(policy)}"
        )
        errors.append(forbidden("spec.preemptionPolicy", reason))
    return errors
