"""Functions of pods that several plugins use."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from podsched.framework.events import QueueingHint
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1

T = TypeVar("T")


def once_per_class(find: Callable[[PodInfo], T]) -> Callable[[PodInfo], T]:
    """Make a function remember its results, which are never None, in ``PodClass.compiled``.

    A result may depend only on what all pods of a class have in common.
    """
    key = f"{find.__module__}.{find.__name__}"

    @wraps(find)
    def remembered(pod: PodInfo) -> T:
        found: T | None = pod.cls.compiled.get(key)
        if found is None:
            found = pod.cls.compiled[key] = find(pod)
        return found

    return remembered


def node_or_nominated(pod: v1.Pod) -> str:
    """Return the name of the node that a pod has or is nominated to, "" for neither."""
    return pod.spec.node_name or pod.status.nominated_node_name


def after_own_update(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    """Answer Queue if the pod that changed is the waiting pod itself."""
    return QueueingHint.of(new is not None and new.metadata.uid == pod.uid)
