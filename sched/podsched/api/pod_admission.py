"""What becomes of a new pod in its namespace and under its runtime, after its defaults.

The order is that of Kubernetes' admission plugins: LimitRanger, then RuntimeClass.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.limit_ranges import aggregate, apply_limit_ranges
from podsched.api.objects import LimitRange, Pod, RuntimeClass
from podsched.api.pod_defaulting import set_qos_class
from podsched.api.runtime_classes import apply_runtime_class


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
    errors = apply_limit_ranges(pod, ranges)
    return aggregate(errors) if errors else ""
