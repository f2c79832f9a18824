"""Remove the finalizer of deleted PodGroups once no unfinished pod names them.

A PodGroup has the finalizer from its creation on (``api/pod_groups``), so that it exists as long as
its pods do. Source: pkg/controller/podgroupprotection of Kubernetes 1.36, which also adds the
finalizer again if a client has removed it.
"""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.conditions import is_finished
from podsched.api.objects import AnyObject, Pod, PodGroup
from podsched.api.pod_groups import PROTECTION_FINALIZER, group_key
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, without_finalizer
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes

_GROUP = "PodGroup"


class PodGroupProtectionController:
    """Removes the finalizer of deleted PodGroups."""

    name = "podgroup-protection"
    kinds = ("Pod", _GROUP)
    ignores_bare_pods = False

    def __init__(self, objects: Objects, writes: Writes) -> None:
        self._objects = objects
        self._writes = writes
        self._members: dict[str, set[str]] = {}
        """The unfinished pods that name each group, by their keys."""
        self._counted_for: dict[str, str] = {}
        """By the key of a pod, its group: reading that from the pod's old version takes longer."""
        self._queue = WorkQueue[str]()

    def start(self, now: Instant) -> Iterator[None]:
        for key in list(self._objects.objects("Pod")):
            yield
            self._pod_changed(key, self._objects.get("Pod", key))
        self._queue.update(self._objects.objects(_GROUP))

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == _GROUP:
            self._queue.add(event.key)
        else:
            self._pod_changed(event.key, event.new)

    def _pod_changed(self, key: str, pod: AnyObject | None) -> None:
        joined, left = _group_of(pod), self._counted_for.get(key, "")
        if joined == left:
            return  # Nearly all changes of pods end here.
        if left:
            members = self._members[left]
            members.discard(key)
            if not members:
                del self._members[left]
                self._queue.add(left)
            del self._counted_for[key]
        if joined:
            self._members.setdefault(joined, set()).add(key)
            self._counted_for[key] = joined

    def work(self, now: Instant) -> float | None:
        for key in self._queue.take():
            with self._writes.skipping(_GROUP, key):
                self._release_group(key)
        return None

    def _release_group(self, key: str) -> None:
        group = self._objects.get(_GROUP, key)
        if not isinstance(group, PodGroup) or key in self._members:
            return
        metadata = group.metadata
        if metadata.HasField("deletion_timestamp") and PROTECTION_FINALIZER in metadata.finalizers:
            patch = without_finalizer(group, PROTECTION_FINALIZER)
            self._writes.patch(key, patch, self._queue.adder(key))


def _group_of(pod: AnyObject | None) -> str:
    """Return the key of the group that an unfinished pod names; "" for none."""
    if not isinstance(pod, Pod):
        return ""
    group = group_key(pod)  # Before the phase, because most pods name none.
    return "" if group and is_finished(pod) else group
