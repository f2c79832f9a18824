"""The LocalQueue that a pod is in."""

from __future__ import annotations

from podsched.api.queue_labels import ADMITTED_QUEUE, QUEUE_NAME
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.framework.pods import PodInfo

#: The LocalQueue of a namespace that pods without the label join.
DEFAULT_QUEUE = "default"


def local_queue(cluster: ClusterView, pod: PodInfo) -> str:
    """Return the name of the LocalQueue that a pod joins, or was admitted by; "" for none."""
    # Not by the labels of now: users may make and remove PodGroups while the pods run.
    if pod.node_name and (admitted := pod.pod.metadata.annotations.get(ADMITTED_QUEUE, "")):
        return admitted
    group = stored_group(cluster, pod.group) if pod.group else None
    of_group = "" if group is None else group.metadata.labels.get(QUEUE_NAME, "")
    named: str = of_group or pod.cls.labels.get(QUEUE_NAME, "")
    if not named and cluster.get("LocalQueue", pod.namespace, DEFAULT_QUEUE):
        return DEFAULT_QUEUE
    return named
