"""Pods and assignments for tests of what decides and binds."""

from __future__ import annotations

from typing import Any

from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.term.writes.bind_queue import Assignment
from support.engine_world import pod

_CLASSES = PodClasses()


def pod_info(name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> PodInfo:
    """A pod as the scheduler sees it."""
    return make_pod_info(pod(name, spec, **metadata), _CLASSES)


def assignment(name: str, node: str = "n1") -> Assignment:
    """A pod on its way to a node."""
    queued = QueuedPodInfo(pod_info(name), timestamp=0.0)
    return Assignment(queued, node, CycleState())
