"""How pods are named in answers."""

from __future__ import annotations

from podsched.framework.pods import PodInfo
from podsched.v1.scheduling_pb2 import PodReference


def reference(pod: PodInfo) -> PodReference:
    """Return a pod's name and what else tells it apart."""
    return PodReference(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        priority=pod.priority,
        node_name=pod.node_name,
    )
