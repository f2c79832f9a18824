"""Creates, changes and deletes the pods of owners of one kind; records events about owners."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from functools import partial

from podsched.api.metadata_defaulting import generated_name
from podsched.api.objects import AnyObject, ObjectMeta, Pod, PodTemplateSpec, object_key
from podsched.api.owners import follow_template
from podsched.lib.backoff import exponential
from podsched.serve.client.errors import AlreadyExists, ClientError, NotFound
from podsched.term.controllers.controller import without_finalizer
from podsched.term.controllers.owned_pods import (
    EXPECTED_FOR,
    MOST_AT_ONCE,
    Creation,
    Owned,
    PodsOfOwners,
)
from podsched.term.controllers.pod_records import JOB_TRACKING, OwnedPod
from podsched.term.controllers.write_queues import Done, Writes
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest

#: Seconds before a failed creation is tried again, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0


class PodWrites:
    """Notes the writes under way in ``Owned``, and sends them by ``requests``."""

    def __init__(self, pods: PodsOfOwners, requests: Writes, recorder: EventRecorder) -> None:
        self._pods = pods
        self._requests = requests
        self._recorder = recorder

    def change(
        self, owned: Owned, record: OwnedPod, request: PatchRequest, done: Done | None = None
    ) -> None:
        """Patch a pod; it must not be patched again while it is among ``releasing``."""
        owned.releasing[record.uid] = None

        def answered(error: ClientError | None) -> None:
            if error is not None:
                owned.releasing.pop(record.uid, None)
            if done is not None:
                done(error)

        self._requests.send(record.key, request, partial(self._retry, record.key), done=answered)

    def _retry(self, pod_key: str) -> None:
        pod = self._pods.objects.get("Pod", pod_key)
        owner = self._pods.owner_of(pod)
        if owner is not None:
            self._pods.notify(f"{pod_key.partition('/')[0]}/{owner.name}")

    def new_pod(
        self, owner: AnyObject, template: PodTemplateSpec, prefix: str, completion: int = -1
    ) -> Pod:
        """Return a pod of an owner that is to be created; it counts from now on.

        prefix: how its name begins. completion: its completion index.
        """
        pod = Pod(spec=template.spec)
        metadata = pod.metadata
        follow_template(metadata, template.metadata, owner)
        metadata.finalizers.extend(template.metadata.finalizers)
        metadata.generate_name = prefix
        metadata.name = self._new_name(owner, prefix)
        made = Creation(completion, self._pods.now + EXPECTED_FOR)
        self._pods.of(owner.metadata).creating[object_key(pod)] = made
        return pod

    def _new_name(self, owner: AnyObject, prefix: str) -> str:
        """Return a name that no pod has: two of 5,000 random names may be equal."""
        creating, namespace = self._pods.of(owner.metadata).creating, owner.metadata.namespace
        while True:
            name = generated_name(prefix, uuid.uuid4().hex)
            key = f"{namespace}/{name}"
            if key not in creating and self._pods.objects.get("Pod", key) is None:
                return name

    def room(self, owned: Owned, wanted: int) -> int:
        """Return how many of the wanted pods may be created now: more with each success."""
        if owned.unanswered or self._pods.now < owned.not_before:
            return 0
        return min(wanted, owned.batch, MOST_AT_ONCE)

    def create(self, key: str, owner: AnyObject, pods: Sequence[Pod]) -> None:
        owned = self._pods.of(owner.metadata)
        owned.unanswered += len(pods)
        failed: list[ClientError] = []

        def answered(pod: Pod, error: ClientError | None) -> None:
            owned.unanswered -= 1
            # It exists if an earlier attempt was done and its answer lost: names are random.
            if error is None or isinstance(error, AlreadyExists):
                self.record(owner.metadata, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
            else:
                owned.creating.pop(object_key(pod), None)
                failed.append(error)
            if not owned.unanswered:
                self._all_answered(owned, owner, failed)
                self._pods.notify(key, at_once=True)

        for pod in pods:
            # Not repeated one by one: the owner is examined once all are answered.
            self._requests.send(object_key(pod), pod, lambda: None, done=partial(answered, pod))

    def _all_answered(self, owned: Owned, owner: AnyObject, failed: Sequence[ClientError]) -> None:
        if not failed:
            # As slowStartBatch of Kubernetes: if quota or admission refuses the pods, an attempt
            # costs one request and not a hundred.
            owned.batch = min(2 * owned.batch, MOST_AT_ONCE)
            owned.failures, owned.error = 0, ""
            return
        owned.batch, owned.error = 1, str(failed[0])
        owned.failures += 1
        pause = exponential(_FIRST_PAUSE, _LONGEST_PAUSE, owned.failures)
        owned.not_before = self._pods.now + pause
        self.record(owner.metadata, "FailedCreate", f"Error creating: {owned.error}", "Warning")

    def drop(self, key: str, owner: AnyObject, records: Iterable[OwnedPod]) -> None:
        """Delete pods without counting them for their Job: first remove its finalizer from them."""
        owned = self._pods.of(owner.metadata)

        def released(record: OwnedPod, error: ClientError | None) -> None:
            if error is None:
                self.delete(key, owner, [record])
            else:
                owned.dropping.pop(record.uid, None)

        for record in records:
            owned.dropping[record.uid] = None
            pod = self._pods.objects.get("Pod", record.key)
            if pod is not None and JOB_TRACKING in pod.metadata.finalizers:
                request = without_finalizer(pod, JOB_TRACKING)
                self.change(owned, record, request, partial(released, record))
            else:
                self.delete(key, owner, [record])

    def delete(self, key: str, owner: AnyObject, records: Iterable[OwnedPod]) -> None:
        """Delete pods of an owner, with their grace period."""
        owned = self._pods.of(owner.metadata)
        for record in records:
            owned.deleting[record.uid] = None
            request = DeleteRequest(
                kind="Pod", namespace=owner.metadata.namespace, name=record.name
            )
            request.preconditions.uid = record.uid
            done = partial(self._deleted, owned, owner.metadata, record)
            self._requests.send(record.key, request, partial(self._pods.notify, key), done=done)

    def _deleted(
        self, owned: Owned, owner: ObjectMeta, record: OwnedPod, error: ClientError | None
    ) -> None:
        if error is None:
            self.record(owner, "SuccessfulDelete", f"Deleted pod: {record.name}")
        elif not isinstance(error, NotFound):
            owned.deleting.pop(record.uid, None)
            owned.dropping.pop(record.uid, None)
            self.record(owner, "FailedDelete", f"Error deleting: {error}", "Warning")

    def record(self, owner: ObjectMeta, reason: str, message: str, type_: str = "Normal") -> None:
        """Record an event about an owner, unless there have been very many."""
        if self._pods.of(owner).events.take(self._pods.now):
            self._recorder.record(
                owner,
                type_=type_,
                reason=reason,
                message=message,
                controller=f"{self._pods.kind.name.lower()}-controller",
                kind=self._pods.kind.name,
            )
