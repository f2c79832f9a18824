"""How long a unit may run, and how long it keeps its quota and nodes at most.

| limit | at its end the unit is |
| --- | --- |
| execution time: the label of the PodGroup, else of its pods | evicted and deactivated |
| deadline: ``activeDeadlineSeconds``, if all pods have one | evicted, if it is still there |

Two annotations of the ClusterQueue set the execution time of units without the label, and the
maximum for all units. Both limits of a group count from its admission, those of a lone pod from the
time at which it got its node.

Source: Kueue 0.20, pkg/controller/core/workload_controller.go. There, the time before an eviction
counts, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any, Final

from podsched.api.queue_labels import (
    ADMITTED_EXEC_TIME,
    ADMITTED_QUEUE,
    DEFAULT_EXEC_TIME,
    LONGEST_EXEC_TIME,
    MAX_EXEC_TIME,
)
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.framework.pods import PodInfo
from podsched.term.admission.units import Unit

#: Seconds that an eviction and its confirmation may take beyond the grace period.
SLACK: Final = 5.0
#: Kubernetes' terminationGracePeriodSeconds of a pod that names none.
_DEFAULT_GRACE: Final = 30
#: Digits of a number of seconds; the API refuses longer ones.
_MOST_DIGITS: Final = 10


def execution_time(cluster: ClusterView, unit: Unit) -> float:
    """Return the seconds after which a unit is deactivated; infinity for none."""
    queue = cluster.get("ClusterQueue", "", unit.queue)
    of_queue = {} if queue is None else queue.metadata.annotations
    own = _seconds(asked_execution_time(cluster, unit) or of_queue.get(DEFAULT_EXEC_TIME, ""))
    return min(own, _seconds(of_queue.get(LONGEST_EXEC_TIME, "")))


def asked_execution_time(cluster: ClusterView, unit: Unit) -> str:
    """Return the execution time that a unit was admitted with, or asks for; "" for none."""
    for pod in unit.held.values():
        # Its other pods may have other labels, or it another PodGroup by now.
        annotations = pod.pod.metadata.annotations
        if ADMITTED_QUEUE in annotations:
            return str(annotations.get(ADMITTED_EXEC_TIME, ""))
    first = next(iter(unit.held.values() or unit.waiting.values()))
    found = first.cls.labels.get(MAX_EXEC_TIME, "")
    group = stored_group(cluster, first.group) if first.group else None
    return found if group is None else group.metadata.labels.get(MAX_EXEC_TIME, "") or found


def deadline(pods: Iterable[PodInfo]) -> float:
    """Return the longest deadline of some pods in seconds; infinity if one of them has none."""
    latest = 0.0
    for pod in pods:
        spec = pod.pod.spec
        if not spec.HasField("active_deadline_seconds"):
            return inf
        latest = max(latest, float(spec.active_deadline_seconds))
    return latest or inf


def occupied(cluster: ClusterView, unit: Unit, *, joining: bool = False) -> float:
    """Return the most seconds from a unit's start until its quota and nodes are free again.

    That is its limit, the grace period of its pods and ``SLACK``; infinity without a limit.
    ``joining``: if the pods that wait join those with a node.
    """
    pods = [*unit.held.values()]
    if joining or not pods:
        pods += unit.waiting.values()
    limit = min(execution_time(cluster, unit), deadline(pods))
    return limit if limit == inf else limit + longest_grace(pods) + SLACK


def longest_grace(pods: Iterable[PodInfo]) -> float:
    """Return the longest grace period of some pods, in seconds."""
    return float(max(map(_grace, pods)))


def _grace(pod: PodInfo) -> int:
    spec = pod.pod.spec
    has = spec.HasField("termination_grace_period_seconds")
    return spec.termination_grace_period_seconds if has else _DEFAULT_GRACE


def _seconds(text: Any) -> float:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return float(text) if is_number and int(text) > 0 else inf
