"""PodGroups: the group of a pod; admission: priority, protection, the Workload that one names.

Source: plugin/pkg/admission/{priority,scheduling} of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podsched.api.objects import AnyObject, Pod, PodGroup, Workload
from podsched.api.priorities import PriorityClasses
from podsched.api.queue_labels import QUEUE_GROUP_COUNT, QUEUE_GROUP_NAME

#: Keeps a deleted PodGroup as long as an unfinished pod names it.
PROTECTION_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


def group_key(pod: Pod) -> str:
    """Return "namespace/name" of the PodGroup that a pod names, "" for none."""
    if not pod.spec.HasField("scheduling_group"):
        return ""
    return f"{pod.metadata.namespace}/{pod.spec.scheduling_group.pod_group_name}"


#: Labels or annotations by which pods name their group without a PodGroup object: those of the
#: coscheduling plugin, Volcano's and Kueue's.
_GROUP_NAMES: Final = (
    "pod-group.scheduling.sigs.k8s.io/name",
    "scheduling.x-k8s.io/pod-group",
    "scheduling.k8s.io/group-name",
    QUEUE_GROUP_NAME,
)
_MIN_COUNTS: Final = (
    "pod-group.scheduling.sigs.k8s.io/min-available",
    "podsched.io/min-count",
    QUEUE_GROUP_COUNT,
)

#: The labels and annotations that name groups and say how many have to start together.
GROUP_MARKS: Final = (*_GROUP_NAMES, *_MIN_COUNTS)


def label_group_key(pod: Pod) -> str:
    """Return "namespace/name" of the group that a label or annotation names, "" for none."""
    name = _marked(pod, _GROUP_NAMES)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def queue_group_key(namespace: str, labels: Mapping[str, str]) -> str:
    """Return "namespace/name" of the group that Kueue's label names, "" for none."""
    name = labels.get(QUEUE_GROUP_NAME, "")
    return f"{namespace}/{name}" if name else ""


def label_min_count(pod: Pod) -> int | None:
    """Return how many members have to start together, as a pod says; None if it does not."""
    text = _marked(pod, _MIN_COUNTS)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _marked(pod: Pod, keys: tuple[str, ...]) -> str:
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    found = (labels.get(key, "") or annotations.get(key, "") for key in keys)
    return next(filter(None, found), "")


def drop_group_claims(new: AnyObject, old: AnyObject | None) -> None:
    """Remove the claims of a PodGroup, or of a Workload's templates, unless they were stored.

    As Kubernetes does while DRAWorkloadResourceClaims is off.
    """
    if isinstance(new, PodGroup):
        if not (isinstance(old, PodGroup) and old.spec.resource_claims):
            new.spec.ClearField("resource_claims")
    elif isinstance(new, Workload):
        templates = old.spec.pod_group_templates if isinstance(old, Workload) else ()
        if not any(template.resource_claims for template in templates):
            for template in new.spec.pod_group_templates:
                template.ClearField("resource_claims")


def admit_pod_group(group: PodGroup, classes: PriorityClasses) -> str:
    """Protect a new PodGroup and fill in its priority; return why it is refused, or ""."""
    if PROTECTION_FINALIZER not in group.metadata.finalizers:
        group.metadata.finalizers.append(PROTECTION_FINALIZER)
    spec = group.spec
    name = spec.priority_class_name
    chosen = classes.get(name)
    if name and chosen is None:
        return f"no PriorityClass with name {name} was found"
    value = 0 if chosen is None else chosen.value
    if spec.HasField("priority") and spec.priority != value:
        return (
            f"priority set in the pod group ({spec.priority}) must match the priority computed "
            f"({value}) based on the priority class set in the spec"
        )
    spec.priority = value
    spec.priority_class_name = "" if chosen is None else chosen.metadata.name
    return ""


def template_refusal(group: PodGroup, workload: Workload | None) -> str:
    """Return why a PodGroup cannot be of the template that it names, "" if it can.

    ``workload``: the one that it names, if there is one.
    """
    reference = group.spec.pod_group_template_ref.workload
    name, template = reference.workload_name, reference.pod_group_template_name
    if not name:
        return ""
    if workload is None:
        return f'PodGroup rejected: Workload "{name}" not found'
    if workload.metadata.HasField("deletion_timestamp"):
        return f'PodGroup rejected: Workload "{name}" is being deleted'
    if all(each.name != template for each in workload.spec.pod_group_templates):
        return f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"'
    return ""
