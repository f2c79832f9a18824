"""PrioritySort: activeQ by priority, then by the time the pod was queued (kube-scheduler v1.36)."""

from __future__ import annotations

from typing import Any, ClassVar

from podsched.framework.pods import QueuedPodInfo
from podsched.plugins.without_args import WithoutArgs


class PrioritySort(WithoutArgs):
    """QueueSort: higher priority first, then the older timestamp."""

    name: ClassVar[str] = "PrioritySort"

    def sort_key(self, pod: QueuedPodInfo) -> tuple[Any, ...]:
        return (-pod.info.priority, pod.timestamp)
