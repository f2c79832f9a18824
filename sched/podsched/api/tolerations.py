"""Which taints a pod tolerates.

Source: k8s.io/api/core/v1 Toleration.ToleratesTaint and k8s.io/component-helpers/scheduling/corev1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))

TAINT_NOT_READY = "node.kubernetes.io/not-ready"
#: Set by an administrator: the node's machine is off, so its pods do not run any more.
TAINT_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
TAINT_UNREACHABLE = "node.kubernetes.io/unreachable"
TAINT_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint.

    An empty key or effect covers all. ``Lt`` and ``Gt`` cover nothing: the feature gate
    TaintTolerationComparisonOperators is off by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    return operator == "Exists"


def find_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first taint that keeps pods off and that no toleration covers."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None
