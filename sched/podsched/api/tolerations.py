"""Which taints a pod tolerates, and for how long.

Source: k8s.io/api/core/v1 Toleration.ToleratesTaint, k8s.io/component-helpers/scheduling/corev1 and
the taint eviction controller's getMinTolerationTime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from podsched.api.objects import Taint, Toleration
from podsched.api.selectors import parse_int64

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))

TAINT_NOT_READY = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE = "node.kubernetes.io/unreachable"
TAINT_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether a toleration covers a taint.

    An empty key or effect covers all. Lt and Gt cover nothing unless `comparison_operators`
    (TaintTolerationComparisonOperators, off by default) is on.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    if operator == "Exists":
        return True
    return comparison_operators and _compares(toleration, taint)


def _compares(toleration: Toleration, taint: Taint) -> bool:
    bound, value = parse_int64(toleration.value), parse_int64(taint.value)
    if bound is None or value is None:
        return False
    if toleration.operator == "Lt":
        return value < bound
    return toleration.operator == "Gt" and value > bound


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Collection[str] = HARD_EFFECTS,
) -> Taint | None:
    """Return the first taint of one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


def tolerated_seconds(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> float | None:
    """How long a pod may stay beside NoExecute taints: 0 not at all, None for ever.

    The shortest tolerationSeconds of the tolerations that cover one of the taints; negative is 0.
    """
    seconds: list[int] = []
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        covering = [t for t in tolerations if tolerates(t, taint)]
        if not covering:
            return 0
        seconds += [t.toleration_seconds for t in covering if t.HasField("toleration_seconds")]
    return max(0, min(seconds)) if seconds else None
