"""Find the pods of a ClusterQueue, including ended ones, to estimate when a unit starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from podsched.api.objects import object_key
from podsched.api.pod_groups import group_key
from podsched.api.queue_labels import QUEUE_NAME
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.term.admission.admission import Admission
from podsched.term.admission.units import DEFAULT_QUEUE
from podsched.v1 import objects_pb2 as v1


def sibling_queues(admission: Admission, key: str) -> Collection[str] | None:
    """Return the LocalQueues, "namespace/name", of a unit's ClusterQueue; None without a queue."""
    unit = admission.units.get(key)
    if unit is None:
        return None
    return {
        object_key(one)
        for one in admission.cluster.list("LocalQueue")
        if one.spec.cluster_queue == unit.queue
    }


def pods_in(
    queues: Collection[str] | None, cluster: ClusterView, pods: Iterable[v1.Pod]
) -> list[v1.Pod]:
    """Return the pods whose labels, or whose PodGroups, name one of the LocalQueues; None: all."""
    return [pod for pod in pods if queues is None or _local_queue(cluster, pod) in queues]


def _local_queue(cluster: ClusterView, pod: v1.Pod) -> str:
    namespace = pod.metadata.namespace
    of = stored_group(cluster, group_key(pod))
    named = of.metadata.labels.get(QUEUE_NAME, "") if of is not None else ""
    return f"{namespace}/{named or pod.metadata.labels.get(QUEUE_NAME, DEFAULT_QUEUE)}"
