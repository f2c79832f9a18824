"""Adopts the pods that owners of one kind select, and releases those that they do not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from podsched.api.codec import write
from podsched.api.conditions import is_finished
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, ObjectMeta, Pod
from podsched.api.owners import add_controller, controller_of
from podsched.serve.client.errors import ClientError
from podsched.term.controllers.controller import Writes, metadata_patch
from podsched.term.controllers.owned_pods import (
    EXPECTED_FOR,
    MOST_AT_ONCE,
    Creation,
    Owned,
    PodsOfOwners,
)
from podsched.term.controllers.pod_records import COMPLETION_INDEX, OwnedPod, completion_index
from podsched.term.controllers.pod_writes import PodWrites

#: Pods looked at per step of a search for orphans.
_STEP = 2000


class Adoption:
    """Adopts pods by ``requests``, and releases owned pods by ``writes``."""

    def __init__(self, pods: PodsOfOwners, requests: Writes, writes: PodWrites) -> None:
        self._pods = pods
        self._requests = requests
        self._writes = writes
        self._searching: Iterator[None] | None = None
        #: Owners whose namespace has not been searched for pods to adopt.
        self.unsearched: dict[str, None] = {}

    def search(self) -> bool:
        """Search for pods that new owners adopt, in steps; return whether there is more."""
        if self._searching is None and self.unsearched:
            self._searching = self._search(dict(self.unsearched))
        if self._searching is not None and next(self._searching, self) is self:
            self._searching = None
        return bool(self.unsearched)

    def _search(self, owners: dict[str, None]) -> Iterator[None]:
        namespaces = {key.partition("/")[0] for key in owners}
        keys = iter(list(self._pods.objects.objects("Pod")))
        while part := list(islice(keys, _STEP)):
            for key in part:
                if key.partition("/")[0] in namespaces:
                    pod = self._pods.objects.get("Pod", key)
                    if isinstance(pod, Pod) and controller_of(pod.metadata) is None:
                        self._pods.look_for_owners(key, pod)
            yield
        for key in owners:
            self.unsearched.pop(key, None)
            self._pods.notify(key)

    def claim(self, key: str, owner: AnyObject, *, finalizer: str = "") -> None:
        """Adopt the pods that match, and release those that do not.

        ``finalizer``: is added to adopted pods and removed from released ones.
        """
        owned = self._pods.of(owner.metadata.uid)
        if owner.metadata.HasField("deletion_timestamp"):
            owned.adoptable.clear()
            return
        for pod_key in list(islice(owned.adoptable, MOST_AT_ONCE)):
            del owned.adoptable[pod_key]
            pod = self._pods.objects.get("Pod", pod_key)
            if isinstance(pod, Pod) and _is_adoptable(pod) and self._pods.selects(key, pod):
                self._adopt(pod_key, pod, owner, finalizer)
        strangers = [
            pod
            for pod in owned.pods.others.values()
            if not pod.matches and not pod.is_deleting and pod.uid not in owned.releasing
        ]
        for record in strangers[:MOST_AT_ONCE]:
            pod = self._pods.objects.get("Pod", record.key)
            if isinstance(pod, Pod):
                self._release(owned, record, pod, owner.metadata.uid, finalizer)
        if owned.adoptable or len(strangers) > MOST_AT_ONCE:
            self._pods.notify(key, at_once=True)

    def _adopt(self, key: str, pod: Pod, owner: AnyObject, finalizer: str) -> None:
        adopted = ObjectMeta(owner_references=pod.metadata.owner_references)
        add_controller(adopted, owner)
        change = write(adopted)
        if finalizer:
            change["finalizers"] = [*pod.metadata.finalizers, finalizer]
        creating = self._pods.of(owner.metadata.uid).creating
        creating[key] = Creation(
            completion_index(pod.metadata.annotations.get(COMPLETION_INDEX, "")),
            self._pods.now + EXPECTED_FOR,
        )

        def done(error: ClientError | None) -> None:
            if error is not None:
                creating.pop(key, None)

        request = metadata_patch(pod, change)
        self._requests.patch(key, request, partial(self._look_again, key), done=done)

    def _look_again(self, key: str) -> None:
        pod = self._pods.objects.get("Pod", key)
        if isinstance(pod, Pod) and _is_adoptable(pod):
            self._pods.look_for_owners(key, pod)

    def _release(
        self, owned: Owned, record: OwnedPod, pod: Pod, owner: str, finalizer: str
    ) -> None:
        references = to_manifest(pod)["metadata"]["ownerReferences"]
        change: dict[str, Any] = {
            "ownerReferences": [of for of in references if of["uid"] != owner] or None
        }
        if finalizer:
            change["finalizers"] = [of for of in pod.metadata.finalizers if of != finalizer] or None
        self._writes.change(owned, record, metadata_patch(pod, change))


def _is_adoptable(pod: Pod) -> bool:
    metadata = pod.metadata
    is_free = controller_of(metadata) is None and not metadata.HasField("deletion_timestamp")
    return is_free and not is_finished(pod)
