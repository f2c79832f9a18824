"""Adopts and releases the pods of owners of one kind."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from podsched.api.codec import write
from podsched.api.conditions import is_finished, is_terminating
from podsched.api.objects import AnyObject, ObjectMeta, Pod
from podsched.api.owners import add_controller, controller_of
from podsched.serve.client.errors import ClientError
from podsched.term.controllers.controller import find, metadata_patch
from podsched.term.controllers.owned_pods import (
    EXPECTED_FOR,
    MOST_AT_ONCE,
    Creation,
    Owned,
    PodsOfOwners,
)
from podsched.term.controllers.pod_records import COMPLETION_INDEX, OwnedPod, completion_index
from podsched.term.controllers.pod_writes import PodWrites
from podsched.term.controllers.write_queues import Writes


class PodAdoption:
    """Finds the pods to adopt and to release, and sends the writes by ``requests``."""

    def __init__(self, pods: PodsOfOwners, requests: Writes, pod_writes: PodWrites) -> None:
        self._pods = pods
        self._requests = requests
        self._pod_writes = pod_writes

    def look_at(self, key: str, pod: Pod) -> None:
        """Let the owners that select a pod without a controller adopt it."""
        if controller_of(pod.metadata) is None:
            self._pods.look_for_owners(key, pod)

    def claim(self, key: str, owner: AnyObject, *, finalizer: str = "") -> None:
        """Adopt the pods that match, and release those that do not.

        ``finalizer``: is added to adopted pods and removed from released ones.
        """
        owned = self._pods.of(owner.metadata)
        if is_terminating(owner):
            owned.adoptable.clear()
            return
        for pod_key in list(islice(owned.adoptable, MOST_AT_ONCE)):
            del owned.adoptable[pod_key]
            pod = find(self._pods.objects, Pod, pod_key)
            if pod is None or not _is_free(pod):
                continue
            # A Job counts pods that have finished, too; a ReplicaSet replaces and keeps them.
            is_wanted = bool(finalizer) or not is_finished(pod)
            if is_wanted and self._pods.may_adopt(key, pod_key, pod):
                self._adopt(pod_key, pod, owner, finalizer)
        strangers = [
            pod
            for pod in owned.pods.others.values()
            if not pod.matches
            and (pod.is_active or (finalizer and not pod.is_deleting))
            and pod.uid not in owned.releasing
        ]
        for record in strangers[:MOST_AT_ONCE]:
            pod = find(self._pods.objects, Pod, record.key)
            if pod is not None:
                self._release(owned, record, pod, owner.metadata.uid, finalizer)
        if owned.adoptable or len(strangers) > MOST_AT_ONCE:
            self._pods.notify(key, at_once=True)

    def _adopt(self, key: str, pod: Pod, owner: AnyObject, finalizer: str) -> None:
        adopted = ObjectMeta(owner_references=pod.metadata.owner_references)
        add_controller(adopted, owner)
        change = write(adopted)
        if finalizer:
            change["finalizers"] = [*dict.fromkeys((*pod.metadata.finalizers, finalizer))]
        creating = self._pods.of(owner.metadata).creating
        # It counts from now on, so that no other pod is made in its place.
        creating[key] = Creation(
            completion_index(pod.metadata.annotations.get(COMPLETION_INDEX, "")),
            self._pods.now + EXPECTED_FOR,
        )

        def done(error: ClientError | None) -> None:
            if error is not None:
                creating.pop(key, None)

        request = metadata_patch(pod, change)
        self._requests.send(key, request, partial(self._look_again, key), done=done)

    def _look_again(self, key: str) -> None:
        pod = find(self._pods.objects, Pod, key)
        if pod is not None and _is_free(pod):
            self._pods.look_for_owners(key, pod)

    def _release(
        self, owned: Owned, record: OwnedPod, pod: Pod, owner: str, finalizer: str
    ) -> None:
        others = [write(of) for of in pod.metadata.owner_references if of.uid != owner]
        change: dict[str, Any] = {"ownerReferences": others or None}
        if finalizer:
            change["finalizers"] = [of for of in pod.metadata.finalizers if of != finalizer] or None
        self._pod_writes.change(owned, record, metadata_patch(pod, change))


def _is_free(pod: Pod) -> bool:
    return controller_of(pod.metadata) is None and not is_terminating(pod)
