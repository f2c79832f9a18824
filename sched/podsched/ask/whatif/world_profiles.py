"""The profiles of a world, by the schedulerName of its pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsched.api.objects import Pod
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodInfo, QueuedPodInfo


class WorldProfiles:
    """The profiles by name; ``default``, the first, is for pods that name none of them."""

    def __init__(self, runtimes: Mapping[str, ProfileRuntime]) -> None:
        self.runtimes = runtimes
        self.default = next(iter(runtimes))

    def of(self, pod: PodInfo) -> ProfileRuntime:
        """Return the profile of the pod's schedulerName; the first if there is none."""
        return self.runtimes.get(pod.cls.scheduler_name) or self.runtimes[self.default]

    def is_ours(self, pod: Pod) -> bool:
        """Whether a profile has the pod's schedulerName."""
        return (pod.spec.scheduler_name or self.default) in self.runtimes

    def in_queue_order(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Return pods in the order of activeQ, the oldest first among equals."""
        [sort] = self.runtimes[self.default].queue_sort[:1]
        queued = [
            QueuedPodInfo(pod, pod.creation_time, pod.creation_time, sequence=number)
            for number, pod in enumerate(pods)
        ]
        return [one.info for one in sorted(queued, key=sort.plugin.sort_key)]
