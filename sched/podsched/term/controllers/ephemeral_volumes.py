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
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref
from podsched.term.controllers.write_queues import Writes

_CLAIM = "PersistentVolumeClaim"


class EphemeralVolumeController(QueueController):
    """Creates claims for pods with ephemeral volumes."""

    name = "ephemeral-volume"
    kinds = ("Pod", _CLAIM)

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        self._pods: dict[str, str] = {}
        """The key of the pod by the key of its claim."""

    def changed(self, event: Event, now: Instant) -> None:
        if event.kind == _CLAIM:
            if event.new is None and event.key in self._pods:
                self._queue.add(Ref("Pod", self._pods[event.key]))
        elif event.new is None:
            for key in _claims_of(event.old):
                self._pods.pop(key, None)
        elif event.old is None or event.old.metadata.uid != event.new.metadata.uid:
            for claim in _claims_of(event.new):
                self._pods[claim] = event.key
                self._queue.add(Ref("Pod", event.key))

    def _examine(self, ref: Ref, now: Instant) -> None:
        pod = self._objects.get(*ref)
        if not isinstance(pod, Pod) or is_terminating(pod):
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
