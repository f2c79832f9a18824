"""Remove the finalizer of deleted PodGroups once no unfinished pod names them.

A PodGroup has the finalizer from its creation on (``api/pod_groups``), so that it exists as long as
its pods do. Source: pkg/controller/podgroupprotection of Kubernetes 1.36, which also adds the
finalizer again if a client has removed it.
"""

from __future__ import annotations

from podsched.api.conditions import is_finished
from podsched.api.objects import AnyObject, Pod, PodGroup
from podsched.api.pod_groups import PROTECTION_FINALIZER, group_key
from podsched.lib.groups import Grouped
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import (
    Instant,
    Objects,
    QueueController,
    Ref,
    find,
    without_finalizer,
)
from podsched.term.controllers.write_queues import Writes

_GROUP = "PodGroup"


class PodGroupProtectionController(QueueController):
    """Removes the finalizer of deleted PodGroups."""

    name = "podgroup-protection"
    kinds = ("Pod", _GROUP)
    ignores_bare_pods = False

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        #: The unfinished pods that name each group. It also tells the former group of a pod:
        #: reading that from the pod's old version takes longer.
        self._members = Grouped[str, str, None]()

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == _GROUP:
            self._queue.add(Ref(_GROUP, event.key))
            return
        joined, left = _group_of(event.new), self._members.group_of(event.key)
        if joined == left:
            return  # Nearly all changes of pods end here.
        self._members.move(event.key, joined, None)
        if left is not None and left not in self._members:
            self._queue.add(Ref(_GROUP, left))

    def _examine(self, ref: Ref, now: Instant) -> None:
        group = find(self._objects, PodGroup, ref.key)
        if group is None or ref.key in self._members:
            return
        metadata = group.metadata
        if metadata.HasField("deletion_timestamp") and PROTECTION_FINALIZER in metadata.finalizers:
            patch = without_finalizer(group, PROTECTION_FINALIZER)
            self._writes.send(ref.key, patch, self._queue.adder(ref))


def _group_of(pod: AnyObject | None) -> str | None:
    """Return the key of the group that an unfinished pod names."""
    if not isinstance(pod, Pod):
        return None
    group = group_key(pod)  # Before the phase, because most pods name none.
    return None if not group or is_finished(pod) else group
