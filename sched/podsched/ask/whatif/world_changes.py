"""The profiles of a world, and changes of its cluster: pods with their claims, nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy

from podsched.api.objects import Node, Pod
from podsched.ask.explain.changes.claim_release import release_claims
from podsched.ask.whatif.claims import make_claims, make_volume_claims
from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.cache.trial import Trial
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


class WorldChanges:
    """Changes a cluster, each time as a part of the open trial; without one for good."""

    def __init__(self, cache: Cache, profiles: WorldProfiles) -> None:
        self._cache, self._cluster, self.profiles = cache, cache.cluster, profiles

    def trial(self) -> Trial:
        """Undo all changes of the block at its end; trials may be nested."""
        return Trial(self._cache)

    @contextmanager
    def part(self) -> Iterator[Trial]:
        """Make changes as a part of the open trial; without one they are permanent."""
        with Trial(self._cache) as trial:
            yield trial
            trial.commit()

    def submit(self, pod: Pod) -> PodInfo:
        """Add a pod without a node, and its claims; return it for ``schedule``.

        Its uid and name must not be taken. Claims are made from its templates and for its
        ephemeral volumes.
        """
        if not self.profiles.is_ours(pod):
            pod.spec.scheduler_name = self.profiles.default
        with self.part() as changes:
            for claim in make_claims(pod, self._cluster):
                changes.put("ResourceClaim", claim)
            for volume_claim in make_volume_claims(pod, self._cluster):
                changes.put("PersistentVolumeClaim", volume_claim)
            info = make_pod_info(pod, self._cache.classes)
            changes.submit(info)
        return info

    def remove(self, pod: PodInfo, *, keep_claims: bool = False) -> None:
        """Remove a pod, bound or not, and free its devices.

        ``keep_claims``: keep the claims that were made for it, so that the same pod can be added
        again.
        """
        with self.part() as changes:
            changes.remove(pod)
            release_claims(pod, self._cluster, changes, keep=keep_claims)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pending pod to a node, which reserves its room there."""
        with self.part() as changes:
            changes.nominate(pod, node_name)

    def put_node(self, node: Node) -> None:
        """Add or replace a node."""
        with self.part() as changes:
            changes.put_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node that has no pods."""
        with self.part() as changes:
            changes.remove_node(name)

    def cordon(self, name: str) -> None:
        """Mark an existing node as unschedulable."""
        node = deepcopy(self._cluster.get("Node", "", name))
        assert isinstance(node, Node)
        node.spec.unschedulable = True
        self.put_node(node)
