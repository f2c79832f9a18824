"""Create the PersistentVolumeClaims of generic ephemeral volumes.

An existing claim of the same name that the pod does not control is left alone: VolumeBinding
rejects the pod. A deleted claim of a live pod is created again. An event says why a claim cannot be
created. Source: pkg/controller/volume/ephemeral of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.conditions import is_terminating
from podsched.api.ephemeral_volumes import (
    ephemeral_claim,
    ephemeral_claim_name,
    ephemeral_volumes,
)
from podsched.api.objects import AnyObject, Pod, Volume, object_key
from podsched.lib.groups import Groups
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Instant, Objects, QueueController, Ref, find
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_CLAIM = "PersistentVolumeClaim"


class EphemeralVolumeController(QueueController):
    """Creates claims for pods with ephemeral volumes."""

    name = "ephemeral-volume"
    kinds = ("Pod", _CLAIM)

    def __init__(self, objects: Objects, writes: Writes, recorder: EventRecorder) -> None:
        super().__init__(objects, writes)
        self._recorder = recorder
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
        for claim, volume in zip(_claims_of(pod), ephemeral_volumes(pod), strict=True):
            if self._objects.get(_CLAIM, claim) is None:
                self._create(ref, pod, volume)

    def _create(self, ref: Ref, pod: Pod, volume: Volume) -> None:
        claim = ephemeral_claim(pod, volume)

        def written(failed: ClientError | None) -> None:
            if failed is not None and not failed.retryable:
                self._recorder.record(
                    pod.metadata,
                    type_="Warning",
                    reason="FailedBinding",
                    message=f"ephemeral volume {volume.name}: "
                    f"create PVC {claim.metadata.name}: {failed}",
                    controller="ephemeral_volume",
                )

        self._writes.send(object_key(claim), claim, self._queue.adder(ref), done=written)


def _claims_of(pod: AnyObject | None) -> Iterator[str]:
    """Yield the keys of a pod's ephemeral claims."""
    if isinstance(pod, Pod) and pod.spec.volumes:
        for volume in ephemeral_volumes(pod):
            meta = pod.metadata
            yield f"{meta.namespace}/{ephemeral_claim_name(meta.name, volume)}"
