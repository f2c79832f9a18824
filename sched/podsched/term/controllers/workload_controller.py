"""Base class of the controllers of ReplicaSets and Jobs: examines owners of pods when they are due.

An owner is examined some time after its pods changed. This time grows with the number of its pods,
so examining takes a bounded share of the time. For each version of an owner at most one status is
written, because the next one must be computed from the version that the write results in.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

from podsched.api.codec import write
from podsched.api.conditions import is_finished, is_terminating
from podsched.api.manifest import merge_patch, to_manifest
from podsched.api.objects import AnyObject, ObjectMeta, Pod
from podsched.api.owners import add_controller, controller_of
from podsched.api.selectors import Selector, compile_selector
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import (
    Controller,
    Instant,
    Objects,
    earliest,
    metadata_patch,
)
from podsched.term.controllers.owned_pods import (
    EXPECTED_FOR,
    MOST_AT_ONCE,
    Creation,
    Owned,
    PodsOfOwners,
)
from podsched.term.controllers.pod_pass import PodPass
from podsched.term.controllers.pod_records import COMPLETION_INDEX, OwnedPod, completion_index
from podsched.term.controllers.pod_writes import PodWrites
from podsched.term.controllers.workqueue import DelayingQueue
from podsched.term.controllers.write_queues import Done, Writes
from podsched.term.writes.event_recorder import EventRecorder

#: Seconds for which changes of pods are collected, for each pod of their owner.
_PER_POD: Final = 0.0002
#: Max pods of the owners that are examined in one call of ``work``, and of those that are searched.
_POD_BUDGET: Final = 2000
#: Part of ``_POD_BUDGET`` that an owner takes besides its pods, for up to 100 writes.
_PER_OWNER: Final = 200
_PAUSE: Final = 0.001


class WorkloadController(Controller):
    """See the module; ``owner_kind`` is the kind of the owners."""

    owner_kind: ClassVar[str]

    def __init__(self, objects: Objects, writes: Writes, recorder: EventRecorder) -> None:
        super().__init__(objects, writes)
        self._due = DelayingQueue()
        self._now = 0.0
        """Monotonic time of the last call of ``changed`` or ``work``."""
        self._written: dict[str, str] = {}
        """By key, the version of the owner from which the status being written was computed."""
        self._pods = PodsOfOwners(
            self.owner_kind, objects, selector_of=_selector_of, notify=self._notify
        )
        self._pod_writes = PodWrites(self._pods, writes, recorder)
        self._adoption = Adoption(self._pods, writes, self._pod_writes)
        #: Owners for which no pods to adopt have been searched among all of their namespace.
        self._unsearched = PodPass(objects, writes, self._adoption.look_at)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.owner_kind, "Pod")

    @property
    def ignores_bare_pods(self) -> bool:
        """Only while there are no owners: an owner may adopt bare pods."""
        return not self._pods.has_owners

    def _read(self, kind: str, key: str, item: AnyObject, now: Instant) -> None:
        super()._read(kind, key, item, now)
        if kind == self.owner_kind:
            self._unsearched.discard(key)  # All pods are read after the owners.

    def changed(self, event: Event, now: Instant) -> None:
        self._now = now.monotonic
        if event.kind == "Pod":
            self._pod_changed(event.key, event.old, event.new)
        elif event.kind == self.owner_kind:
            self._owner_changed(event.key, event.old, event.new)

    def _owner_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        self._written.pop(key, None)
        self._pods.owner_changed(key, new)
        if new is not None:
            self._due.put(key, self._now)
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            self._unsearched.discard(key)
            if new is not None and self._searches(new):
                self._unsearched.add(key)

    def _pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        self._pods.pod_changed(key, old, new)

    def _searches(self, owner: AnyObject) -> bool:
        """Return whether a new owner may adopt pods that exist already."""
        return True

    def _notify(self, key: str, *, at_once: bool = False) -> None:
        owner = self._objects.get(self.owner_kind, key)
        if owner is not None:
            pods = 0 if at_once else len(self._pods.of(owner.metadata.uid).pods.all)
            self._due.put(key, self._now + pods * _PER_POD)

    def work(self, now: Instant) -> float | None:
        """Examine the owners that are due, up to a number of pods."""
        self._now = now.monotonic
        self._pods.now = now.monotonic
        for key in self._unsearched.go_on(_POD_BUDGET):
            self._notify(key)
        budget = _POD_BUDGET
        for key in self._due.due(now.monotonic):
            owner = self._objects.get(self.owner_kind, key)
            if owner is None or key in self._unsearched:
                continue
            owned = self._pods.of(owner.metadata.uid)
            owned.forget_lost(now.monotonic)
            with self._writes.skipping(self.owner_kind, key):
                self._sync(key, owner, owned, now)
            self._come_back(key, owned, now)
            budget -= _PER_OWNER + len(owned.pods.all)
            if budget <= 0:
                break
        return earliest(self._due.next, now.monotonic + _PAUSE if self._unsearched else None)

    def _come_back(self, key: str, owned: Owned, now: Instant) -> None:
        if owned.not_before > now.monotonic:
            self._due.put(key, owned.not_before)
        if owned.creating:
            self._due.put(key, next(iter(owned.creating.values())).until)

    @abstractmethod
    def _sync(self, key: str, owner: Any, owned: Owned, now: Instant) -> None:
        """Create, delete or patch an owner's pods, and write its status."""

    def _write_status(self, key: str, owner: Any, status: Any, done: Done | None = None) -> None:
        """Write a status that differs from the stored one."""
        version = owner.metadata.resource_version
        if status == owner.status or self._written.get(key) == version:
            return
        patch = merge_patch(write(owner.status), write(status))
        self._written[key] = version

        def again() -> None:
            self._written.pop(key, None)
            self._notify(key)

        self._writes.send(key, object_patch(owner, {"status": patch}), again, done=done)


def _selector_of(owner: Any) -> Selector:
    return compile_selector(owner.spec.selector if owner.spec.HasField("selector") else None)


class Adoption:
    """Adopts pods by ``requests``, and releases owned pods by ``writes``."""

    def __init__(self, pods: PodsOfOwners, requests: Writes, writes: PodWrites) -> None:
        self._pods = pods
        self._requests = requests
        self._writes = writes

    def look_at(self, key: str, pod: Pod) -> None:
        """Let the owners that select a pod without a controller adopt it."""
        if controller_of(pod.metadata) is None:
            self._pods.look_for_owners(key, pod)

    def claim(self, key: str, owner: AnyObject, *, finalizer: str = "") -> None:
        """Adopt the pods that match, and release those that do not.

        ``finalizer``: is added to adopted pods and removed from released ones.
        """
        owned = self._pods.of(owner.metadata.uid)
        if is_terminating(owner):
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
        self._requests.send(key, request, partial(self._look_again, key), done=done)

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
