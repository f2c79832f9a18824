"""The pods of owners of one kind, and writes under way: creations, deletions, adoptions, releases.

Pods are kept as short records, so that examining an owner with thousands of pods is quick.

    a pod that                                  is
    an owner controls, and its selector matches a pod of the owner
    an owner controls, but does not match       to be released
    has no controller, and matches a selector   to be adopted
    was created here and is not seen yet        in ``creating``: it counts as a pod of its owner
    was deleted here, which is not seen yet     in ``deleting``: it does not count any more

No pod is created twice. A name is chosen once per pod, so a creation whose answer was lost finds
the pod when it is sent again. No write of an earlier term can arrive (the fence), and a term begins
only after the informer has seen all earlier writes. Source: pkg/controller/controller_utils.go and
controller_ref_manager.go of Kubernetes 1.36.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

from podsched.api.codec import write
from podsched.api.conditions import is_finished
from podsched.api.kinds import KINDS
from podsched.api.manifest import to_manifest
from podsched.api.metadata_defaulting import generated_name
from podsched.api.objects import (
    AnyObject,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodTemplateSpec,
    object_key,
)
from podsched.api.owners import add_controller, controller_of
from podsched.api.selectors import Selector
from podsched.serve.client.errors import AlreadyExists, ClientError, NotFound
from podsched.term.controllers.controller import (
    Done,
    Instant,
    Objects,
    Recorder,
    Writes,
    metadata_patch,
    without_finalizer,
)
from podsched.term.controllers.pod_records import (
    COMPLETION_INDEX,
    OwnedPod,
    PodSet,
    completion_index,
    record_of,
)
from podsched.term.controllers.rate import TokenBucket
from podsched.term.controllers.selector_index import SelectorIndex
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest

#: Max pods of one owner that are created, deleted or patched at a time: some 2 ms.
MOST_AT_ONCE = 100
#: Seconds after which a created pod that was never seen does not count any more.
_EXPECTED_FOR = 300.0
#: Seconds before a failed creation is tried again, at first and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
#: Events about one owner: so many at once, then one in five minutes, as client-go's spam filter.
_EVENTS, _EVENT_RATE = 25, 1 / 300
#: Pods looked at per step of a search for orphans.
_STEP = 2000


class Creation(NamedTuple):
    """A created or adopted pod that is not seen yet.

    ``completion``: its completion index, -1 for none. ``until``: the time (monotonic) from which on
    it does not count any more.
    """

    completion: int
    until: float


@dataclass(slots=True)
class Owned:
    """The pods of one owner, and the writes under way for it."""

    pods: PodSet = field(default_factory=PodSet)
    adoptable: dict[str, None] = field(default_factory=dict)
    creating: dict[str, Creation] = field(default_factory=dict)
    """By key: created and adopted pods that are not seen yet."""
    deleting: dict[str, None] = field(default_factory=dict)
    """By uid."""
    dropping: dict[str, None] = field(default_factory=dict)
    """Uids of pods that are deleted without being counted (Jobs)."""
    releasing: dict[str, None] = field(default_factory=dict)
    """Uids of pods that lose a finalizer or the owner."""
    ended: dict[str, OwnedPod] = field(default_factory=dict)
    """By uid: the last pods that were counted, which may be gone (Jobs)."""
    unanswered: int = 0
    """Creations without an answer."""
    batch: int = 1
    """How many pods to create at a time: it doubles with each success."""
    failures: int = 0
    """Failed attempts in a row to create pods."""
    error: str = ""
    """Of the last attempt."""
    not_before: float = 0.0
    events: TokenBucket = field(default_factory=lambda: TokenBucket(_EVENT_RATE, _EVENTS))

    def active(self) -> list[OwnedPod]:
        """Return the pods that are seen and count as the owner's."""
        deleting, dropping = self.deleting, self.dropping
        if not deleting and not dropping:
            return list(self.pods.live.values())
        return [
            pod
            for pod in self.pods.live.values()
            if pod.uid not in deleting and pod.uid not in dropping
        ]

    def forget_lost(self, now: float) -> None:
        """Drop the creations that were never seen."""
        for key in [key for key, made in self.creating.items() if made.until <= now]:
            del self.creating[key]


class Notify(Protocol):
    """Called with the key of an owner that must be examined."""

    def __call__(self, key: str, *, at_once: bool = False) -> None: ...


class PodsOfOwners:
    """See the module.

    selector_of: returns an owner's selector; raises SelectorError. new_uid: returns a random text
    for the name of a new pod.
    """

    def __init__(
        self,
        kind: str,
        objects: Objects,
        writes: Writes,
        recorder: Recorder,
        *,
        selector_of: Callable[[Any], Selector],
        notify: Notify,
        new_uid: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self.kind = KINDS[kind]
        self._objects = objects
        self._writes = writes
        self._recorder = recorder
        self._selector_of = selector_of
        self._notify = notify
        self._new_uid = new_uid
        self._now = 0.0
        """Monotonic time of the last call of ``search``."""
        self._owned: dict[str, Owned] = {}
        """By the owner's uid."""
        self._selectors: dict[str, SelectorIndex[Selector]] = {}
        """By namespace, then by the owner's key."""
        self._uids: dict[str, str] = {}
        """Of the owners that exist, by their keys."""
        self._searching: Iterator[None] | None = None
        self._unsearched: dict[str, None] = {}
        """Owners whose namespace has not been searched for pods to adopt."""

    @property
    def has_owners(self) -> bool:
        """Whether an owner exists."""
        return bool(self._uids)

    def of(self, uid: str) -> Owned:
        """Return the pods of an owner."""
        return self._owned.get(uid) or Owned()

    # ------------------------------------------------------------------ changes

    def owner_changed(self, key: str, owner: AnyObject | None) -> None:
        """Note an owner that is new or gone."""
        namespace = key.partition("/")[0]
        before, uid = self._uids.get(key), owner.metadata.uid if owner is not None else ""
        if before == uid:
            return
        if before is not None:
            del self._uids[key]
            self._unsearched.pop(key, None)
            self._selectors[namespace].remove(key)
            owned = self._owned.get(before)
            if owned is not None and not owned.pods.all:
                del self._owned[before]
        if owner is None:
            return
        self._uids[key] = uid
        selector = self._selector_of(owner)
        self._selectors.setdefault(namespace, SelectorIndex()).put(key, selector, selector)
        owned = self._owned.setdefault(uid, Owned())
        for pod_key in list(owned.pods.all):
            pod = self._objects.get("Pod", pod_key)
            if isinstance(pod, Pod):
                owned.pods.put(self._record_of(pod_key, pod, key))

    def pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        """Note a change of a pod, and notify the owners that it concerns."""
        before = self._owner_of(old)
        after = self._owner_of(new)
        if old is not None and before is not None:
            if after is None or after.uid != before.uid:
                self._pod_left(key, before)
            if new is None or new.metadata.uid != old.metadata.uid:
                self._is_gone(before, old.metadata.uid)
        if not isinstance(new, Pod):
            return
        if after is not None:
            self._pod_of(key, new, after)
        elif (
            self._uids  # First, because comparing labels costs the most here.
            and controller_of(new.metadata) is None
            and (old is None or _may_match_now(old, new))
        ):
            self._look_for_owners(key, new)

    def _owner_of(self, pod: AnyObject | None) -> OwnerReference | None:
        """Return the reference to the controller of a pod, if that is of this kind."""
        if pod is None or not pod.metadata.owner_references:
            return None
        found = controller_of(pod.metadata)
        if found is None or found.kind != self.kind.name:
            return None
        return found if found.api_version == self.kind.api_version else None

    def _pod_left(self, key: str, owner: OwnerReference) -> None:
        owned = self._owned.get(owner.uid)
        if owned is None:
            return
        record = owned.pods.remove(key)
        if record is not None:
            owned.releasing.pop(record.uid, None)
        owner_key = f"{key.partition('/')[0]}/{owner.name}"
        if not owned.pods.all and self._uids.get(owner_key) != owner.uid:
            del self._owned[owner.uid]
        self._notify(owner_key)

    def _is_gone(self, owner: OwnerReference, uid: str) -> None:
        owned = self._owned.get(owner.uid)
        if owned is not None:
            for on_its_way in (owned.deleting, owned.dropping, owned.releasing):
                on_its_way.pop(uid, None)

    def _pod_of(self, key: str, pod: Pod, owner: OwnerReference) -> None:
        owned = self._owned.setdefault(owner.uid, Owned())
        owner_key = f"{pod.metadata.namespace}/{owner.name}"
        record = self._record_of(key, pod, owner_key)
        owned.creating.pop(key, None)
        owned.adoptable.pop(key, None)
        if record.is_deleting:
            owned.deleting.pop(record.uid, None)
        if owned.pods.all.get(key) != record:
            owned.pods.put(record)
            self._notify(owner_key)

    def _look_for_owners(self, key: str, pod: Pod) -> None:
        for owner in self.owners_for(pod):
            self._owned[self._uids[owner]].adoptable[key] = None
            self._notify(owner)

    def owners_for(self, pod: Pod) -> list[str]:
        """Return the keys of the owners that select a pod."""
        index = self._selectors.get(pod.metadata.namespace)
        labels = pod.metadata.labels
        found = index.asking_for(labels) if index is not None else {}
        return [owner for owner, selector in found.items() if selector.matches(labels)]

    def _record_of(self, key: str, pod: Pod, owner_key: str) -> OwnedPod:
        index = self._selectors.get(pod.metadata.namespace)
        selector = index.items.get(owner_key) if index is not None else None
        return record_of(key, pod, selector is None or selector.matches(pod.metadata.labels))

    # ------------------------------------------------------------------ pods to adopt

    def is_searching(self, key: str) -> bool:
        """Return whether an owner may still find pods to adopt."""
        return key in self._unsearched

    def search_for(self, key: str, old: AnyObject | None) -> None:
        """Search for pods to adopt, if an owner is new; ``old``: the object with its key before."""
        if old is None or old.metadata.uid != self._uids.get(key):
            self._unsearched[key] = None

    def search(self, now: Instant) -> bool:
        """Search for pods that new owners adopt, in steps; return whether there is more.

        It is called with the time before owners are examined.
        """
        self._now = now.monotonic
        if self._searching is None and self._unsearched:
            self._searching = self._search(dict(self._unsearched))
        if self._searching is not None and next(self._searching, self) is self:
            self._searching = None
        return bool(self._unsearched)

    def _search(self, owners: dict[str, None]) -> Iterator[None]:
        namespaces = {key.partition("/")[0] for key in owners}
        keys = iter(list(self._objects.objects("Pod")))
        while part := list(islice(keys, _STEP)):
            for key in part:
                if key.partition("/")[0] in namespaces:
                    pod = self._objects.get("Pod", key)
                    if isinstance(pod, Pod) and controller_of(pod.metadata) is None:
                        self._look_for_owners(key, pod)
            yield
        for key in owners:
            self._unsearched.pop(key, None)
            self._notify(key)

    def claim(self, key: str, owner: AnyObject, *, finalizer: str = "") -> None:
        """Adopt the pods that match, and release those that do not.

        ``finalizer``: is added to adopted pods and removed from released ones.
        """
        owned = self.of(owner.metadata.uid)
        if owner.metadata.HasField("deletion_timestamp"):
            owned.adoptable.clear()
            return
        for pod_key in list(islice(owned.adoptable, MOST_AT_ONCE)):
            del owned.adoptable[pod_key]
            pod = self._objects.get("Pod", pod_key)
            if isinstance(pod, Pod) and _is_adoptable(pod) and self._selects(key, pod):
                self._adopt(pod_key, pod, owner, finalizer)
        strangers = [
            pod
            for pod in owned.pods.others.values()
            if not pod.matches and not pod.is_deleting and pod.uid not in owned.releasing
        ]
        for record in strangers[:MOST_AT_ONCE]:
            pod = self._objects.get("Pod", record.key)
            if isinstance(pod, Pod):
                self._release(owned, record, pod, owner.metadata.uid, finalizer)
        if owned.adoptable or len(strangers) > MOST_AT_ONCE:
            self._notify(key, at_once=True)

    def _selects(self, key: str, pod: Pod) -> bool:
        selector = self._selectors[key.partition("/")[0]].items[key]
        return selector.matches(pod.metadata.labels)

    def _adopt(self, key: str, pod: Pod, owner: AnyObject, finalizer: str) -> None:
        adopted = ObjectMeta(owner_references=pod.metadata.owner_references)
        add_controller(adopted, owner)
        change = write(adopted)
        if finalizer:
            change["finalizers"] = [*pod.metadata.finalizers, finalizer]
        creating = self.of(owner.metadata.uid).creating
        creating[key] = Creation(
            completion_index(pod.metadata.annotations.get(COMPLETION_INDEX, "")),
            self._now + _EXPECTED_FOR,
        )

        def done(error: ClientError | None) -> None:
            if error is not None:
                creating.pop(key, None)

        request = metadata_patch(pod, change)
        self._writes.patch(key, request, partial(self._look_again, key), done=done)

    def _look_again(self, key: str) -> None:
        pod = self._objects.get("Pod", key)
        if isinstance(pod, Pod) and _is_adoptable(pod):
            self._look_for_owners(key, pod)

    def _release(
        self, owned: Owned, record: OwnedPod, pod: Pod, owner: str, finalizer: str
    ) -> None:
        references = to_manifest(pod)["metadata"]["ownerReferences"]
        change: dict[str, Any] = {
            "ownerReferences": [of for of in references if of["uid"] != owner] or None
        }
        if finalizer:
            change["finalizers"] = [of for of in pod.metadata.finalizers if of != finalizer] or None
        self.change_pod(owned, record, metadata_patch(pod, change))

    def change_pod(
        self, owned: Owned, record: OwnedPod, request: PatchRequest, done: Done | None = None
    ) -> None:
        """Patch a pod; it must not be patched again while it is among ``releasing``."""
        owned.releasing[record.uid] = None

        def answered(error: ClientError | None) -> None:
            if error is not None:
                owned.releasing.pop(record.uid, None)
            if done is not None:
                done(error)

        self._writes.patch(record.key, request, partial(self._retry, record.key), done=answered)

    def _retry(self, pod_key: str) -> None:
        pod = self._objects.get("Pod", pod_key)
        owner = self._owner_of(pod)
        if owner is not None:
            self._notify(f"{pod_key.partition('/')[0]}/{owner.name}")

    # ------------------------------------------------------------------ new pods, deletions

    def new_pod(
        self, owner: AnyObject, template: PodTemplateSpec, prefix: str, completion: int = -1
    ) -> Pod:
        """Return a pod of an owner that is to be created; it counts from now on.

        prefix: how its name begins. completion: its completion index.
        """
        pod = Pod(spec=template.spec)
        metadata = pod.metadata
        metadata.labels.update(template.metadata.labels)
        metadata.annotations.update(template.metadata.annotations)
        metadata.finalizers.extend(template.metadata.finalizers)
        metadata.namespace = owner.metadata.namespace
        metadata.generate_name = prefix
        metadata.name = self._new_name(owner, prefix)
        made = Creation(completion, self._now + _EXPECTED_FOR)
        self.of(owner.metadata.uid).creating[object_key(pod)] = made
        add_controller(metadata, owner)
        return pod

    def _new_name(self, owner: AnyObject, prefix: str) -> str:
        """Return a name that no pod has: two of 5,000 random names may be equal."""
        creating, namespace = self.of(owner.metadata.uid).creating, owner.metadata.namespace
        while True:
            name = generated_name(prefix, self._new_uid())
            key = f"{namespace}/{name}"
            if key not in creating and self._objects.get("Pod", key) is None:
                return name

    def room(self, owned: Owned, wanted: int) -> int:
        """Return how many of the wanted pods may be created now: more with each success."""
        if owned.unanswered or self._now < owned.not_before:
            return 0
        return min(wanted, owned.batch, MOST_AT_ONCE)

    def create(self, key: str, owner: AnyObject, pods: Sequence[Pod]) -> None:
        """Create new pods of an owner."""
        owned = self.of(owner.metadata.uid)
        owned.unanswered += len(pods)
        failed: list[ClientError] = []

        def answered(pod: Pod, error: ClientError | None) -> None:
            owned.unanswered -= 1
            if error is None or isinstance(error, AlreadyExists):
                self.record(owner.metadata, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
            else:
                owned.creating.pop(object_key(pod), None)
                failed.append(error)
            if not owned.unanswered:
                self._all_answered(owned, owner, failed)
                self._notify(key, at_once=True)

        for pod in pods:
            self._writes.create(object_key(pod), pod, lambda: None, done=partial(answered, pod))

    def _all_answered(self, owned: Owned, owner: AnyObject, failed: Sequence[ClientError]) -> None:
        if not failed:
            owned.batch = min(2 * owned.batch, MOST_AT_ONCE)
            owned.failures, owned.error = 0, ""
            return
        owned.batch, owned.error = 1, str(failed[0])
        pause = min(_FIRST_PAUSE * 2.0**owned.failures, _LONGEST_PAUSE)
        owned.failures = min(owned.failures + 1, 10)
        owned.not_before = self._now + pause
        self.record(owner.metadata, "FailedCreate", f"Error creating: {owned.error}", "Warning")

    def drop(self, key: str, owner: AnyObject, records: Iterable[OwnedPod], finalizer: str) -> None:
        """Delete pods without counting them for their Job: first remove its finalizer from them."""
        owned = self.of(owner.metadata.uid)

        def released(record: OwnedPod, error: ClientError | None) -> None:
            if error is None:
                self.delete(key, owner, [record])
            else:
                owned.dropping.pop(record.uid, None)

        for record in records:
            owned.dropping[record.uid] = None
            pod = self._objects.get("Pod", record.key)
            if pod is not None and finalizer in pod.metadata.finalizers:
                request = without_finalizer(pod, finalizer)
                self.change_pod(owned, record, request, partial(released, record))
            else:
                self.delete(key, owner, [record])

    def delete(self, key: str, owner: AnyObject, records: Iterable[OwnedPod]) -> None:
        """Delete pods of an owner, with their grace period."""
        owned = self.of(owner.metadata.uid)
        for record in records:
            owned.deleting[record.uid] = None
            request = DeleteRequest(
                kind="Pod", namespace=owner.metadata.namespace, name=record.name
            )
            request.preconditions.uid = record.uid
            done = partial(self._deleted, owned, owner.metadata, record)
            self._writes.delete(record.key, request, partial(self._notify, key), done=done)

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
        if self.of(owner.uid).events.take(self._now):
            self._recorder.record(
                owner,
                type_=type_,
                reason=reason,
                action="",
                message=message,
                controller=f"{self.kind.name.lower()}-controller",
                kind=self.kind.name,
            )


def _may_match_now(old: AnyObject, new: Pod) -> bool:
    """Return whether a pod without a controller had another one, or other labels."""
    return old.metadata.labels != new.metadata.labels or controller_of(old.metadata) is not None


def _is_adoptable(pod: Pod) -> bool:
    metadata = pod.metadata
    is_free = controller_of(metadata) is None and not metadata.HasField("deletion_timestamp")
    return is_free and not is_finished(pod)
