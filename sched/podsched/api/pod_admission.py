"""What becomes of a new pod in its namespace and under its runtime, after its defaults.

The order is that of Kubernetes' admission plugins: LimitRanger, then RuntimeClass: what a pod's
runtime costs, and where it can run.

Source: plugin/pkg/admission/runtimeclass and pkg/util/tolerations of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from podsched.api import quantity
from podsched.api.limit_ranges import aggregate, apply_limit_ranges
from podsched.api.objects import LimitRange, Pod, PodSpec, RuntimeClass, Toleration
from podsched.api.pod_defaulting import set_qos_class
from podsched.api.resources import amounts
from podsched.api.tolerations import NO_EXECUTE
from podsched.api.validation.place import MAX_ITEMS


def admit_pod(pod: Pod, ranges: Sequence[LimitRange], runtime_class: RuntimeClass | None) -> str:
    """Fill in what limit ranges and the pod's RuntimeClass say; return why it is refused, or "".

    ``ranges``: those of its namespace; ``runtime_class``: the one it names, if there is one.
    """
    if ranges:
        if why := admit_resize(pod, ranges):
            return why
        set_qos_class(pod)
    spec = pod.spec
    if spec.runtime_class_name or spec.overhead:
        return apply_runtime_class(spec, runtime_class)
    return ""


def admit_resize(pod: Pod, ranges: Sequence[LimitRange]) -> str:
    """Fill in what limit ranges say of containers; return why they are refused, or ""."""
    return aggregate(apply_limit_ranges(pod, ranges))


def apply_runtime_class(spec: PodSpec, runtime_class: RuntimeClass | None) -> str:
    """Merge the class that a new pod names into its spec; return why it is refused, or "".

    ``None``: there is no such class, or the pod names none.
    """
    name = spec.runtime_class_name
    if name and runtime_class is None:
        return f'pod rejected: RuntimeClass "{name}" not found'
    if runtime_class is None or not runtime_class.HasField("overhead"):
        if spec.overhead:
            return (
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
    else:
        fixed = runtime_class.overhead.pod_fixed
        if spec.overhead and not _equal(spec.overhead, fixed):
            return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        spec.overhead.update(fixed)
    if runtime_class is None or not runtime_class.HasField("scheduling"):
        return ""
    scheduling = runtime_class.scheduling
    for key, value in sorted(scheduling.node_selector.items()):
        chosen = spec.node_selector.get(key, value)
        if chosen != value:
            return (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {chosen}"
            )
        spec.node_selector[key] = value
    tolerations = [*spec.tolerations, *scheduling.tolerations]
    # With more than validation accepts, the comparison of all with all would take seconds.
    merged = merged_tolerations(tolerations) if len(tolerations) <= MAX_ITEMS else tolerations
    del spec.tolerations[:]
    spec.tolerations.extend(merged)
    return ""


def _equal(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    """Whether quantities are the same amounts; what cannot be read is validation's to report."""
    try:
        return amounts(first) == amounts(second)
    except quantity.QuantityError:
        return True


def merged_tolerations(tolerations: Iterable[Toleration]) -> list[Toleration]:
    """Return the tolerations without those that another one includes; of equal ones the first."""
    every = list(tolerations)
    kept: list[Toleration] = []
    for index, item in enumerate(every):
        later = every[index + 1 :]
        if any(_includes(other, item) for other in kept):
            continue
        if any(other != item and _includes(other, item) for other in later):
            continue
        kept.append(item)
    return kept


def _includes(wide: Toleration, narrow: Toleration) -> bool:
    """Whether one toleration covers all that another does, for at least as long."""
    if wide == narrow:
        return True
    if narrow.key != wide.key and (wide.key or wide.operator != "Exists"):
        return False
    if wide.effect not in ("", narrow.effect):
        return False
    if wide.effect == NO_EXECUTE and wide.HasField("toleration_seconds"):
        endless = not narrow.HasField("toleration_seconds")
        if endless or narrow.toleration_seconds > wide.toleration_seconds:
            return False
    if wide.operator in ("", "Equal"):
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"
