"""Create the PersistentVolumeClaims of generic ephemeral volumes.

The claim of volume ``v`` of pod ``p`` is named ``p-v`` and controlled by the pod, so it is deleted
with the pod. An existing claim of that name that the pod does not control is left alone:
VolumeBinding rejects the pod. A deleted claim of a live pod is created again. Source:
pkg/controller/volume/ephemeral of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.conditions import is_terminating
from podsched.api.objects import AnyObject, PersistentVolumeClaim, Pod, Volume
from podsched.api.owners import follow_template
from podsched.lib.groups import Groups
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref, find
from podsched.term.controllers.write_queues import Writes

_CLAIM = "PersistentVolumeClaim"


class EphemeralVolumeController(QueueController):
    """Creates claims for pods with ephemeral volumes."""

    name = "ephemeral-volume"
    kinds = ("Pod", _CLAIM)

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        #: The pods by the key of a claim; volume b-c of pod a and volume c of pod a-b share one.
        self._pods = Groups[str, Ref, None]()

    def changed(self, event: Event, now: Instant) -> None:
        ref, old, new = Ref(event.kind, event.key), event.old, event.new
        if event.kind == _CLAIM:
            if new is None:
                self._queue.update(self._pods.of(event.key))
        elif old is None or new is None or old.metadata.uid != new.metadata.uid:
            for claim in _claims_of(old):
                self._pods.drop(claim, ref)
            for claim in _claims_of(new):
                self._pods.put(claim, ref, None)
                self._queue.add(ref)

    def _examine(self, ref: Ref, now: Instant) -> None:
        pod = find(self._objects, Pod, ref.key)
        if pod is None or is_terminating(pod):
            return
        for volume in _ephemeral_volumes(pod):
            key = f"{ref.key}-{volume.name}"
            if self._objects.get(_CLAIM, key) is None:
                self._writes.send(key, _claim(pod, volume), self._queue.adder(ref))


def _ephemeral_volumes(pod: Pod) -> Iterator[Volume]:
    return (volume for volume in pod.spec.volumes if volume.HasField("ephemeral"))


def _claims_of(pod: AnyObject | None) -> Iterator[str]:
    """Yield the keys of a pod's ephemeral claims."""
    if isinstance(pod, Pod) and pod.spec.volumes:
        for volume in _ephemeral_volumes(pod):
            yield f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"


def _claim(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    template = volume.ephemeral.volume_claim_template
    claim = PersistentVolumeClaim(spec=template.spec)
    claim.metadata.name = f"{pod.metadata.name}-{volume.name}"
    follow_template(claim.metadata, template.metadata, pod)
    return claim
