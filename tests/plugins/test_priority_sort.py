"""PrioritySort: the order of the queue."""

from __future__ import annotations

from podsched.framework.pods import QueuedPodInfo
from podsched.plugins.priority_sort import PrioritySort
from support.engine_world import pod
from support.plugin_world import info


def test_higher_priority_goes_first_and_older_among_equals() -> None:
    def queued(name: str, priority: int, timestamp: float) -> QueuedPodInfo:
        return QueuedPodInfo(info(pod(name, {"priority": priority})), timestamp)

    pods = [queued("young", 5, 2.0), queued("low", 1, 0.0), queued("old", 5, 1.0)]
    ordered = sorted(pods, key=PrioritySort().sort_key)
    assert [queued.info.name for queued in ordered] == ["old", "young", "low"]
