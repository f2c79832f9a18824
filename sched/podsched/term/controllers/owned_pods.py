"""The pods of owners of one kind, and the writes under way for them.

``pod_writes`` creates and deletes pods, ``pod_adoption`` adopts and releases them. Pods are kept as
short records, so that examining an owner with thousands of pods is quick.

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

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ObjectMeta, OwnerReference, Pod
from podsched.api.owners import controller_of
from podsched.api.selectors import Selector
from podsched.lib.token_bucket import TokenBucket
from podsched.term.controllers.controller import Objects, find
from podsched.term.controllers.pod_records import OwnedPod, PodSet, record_of
from podsched.term.controllers.selector_index import SelectorIndex

#: Max pods of one owner that are created, deleted or patched at a time: some 2 ms.
MOST_AT_ONCE = 100
#: Seconds after which a created pod that was never seen does not count any more.
EXPECTED_FOR = 300.0
#: Events about one owner: so many at once, then one in five minutes, as client-go's spam filter.
_EVENTS, _EVENT_RATE = 25, 1 / 300


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

    def forget_writes(self, uid: str) -> None:
        """Drop the writes under way for a pod that is gone."""
        for on_its_way in (self.deleting, self.dropping, self.releasing):
            on_its_way.pop(uid, None)


class Notify(Protocol):
    """Called with the key of an owner that must be examined."""

    def __call__(self, key: str, *, at_once: bool = False) -> None: ...


class PodsOfOwners:
    """See the module.

    selector_of: returns an owner's selector; raises SelectorError.
    """

    def __init__(
        self, kind: str, objects: Objects, selector_of: Callable[[Any], Selector], notify: Notify
    ) -> None:
        self.kind = KINDS[kind]
        self.objects = objects
        self._selector_of = selector_of
        self.notify = notify
        self.now = 0.0
        """Monotonic time at which owners were examined last."""
        #: By namespace and the owner's uid: a pod may name an owner of another namespace, which has
        #: no such pods. Not with ``setdefault``, which would make an ``Owned`` for each pod: a
        #: fifth of the time in which all pods are read when a term begins.
        self._owned = defaultdict[tuple[str, str], Owned](Owned)
        self._selectors: dict[str, SelectorIndex[Selector]] = {}
        """By namespace, then by the owner's key."""
        self._uids: dict[str, str] = {}
        """Of the owners that exist, by their keys."""

    @property
    def has_owners(self) -> bool:
        return bool(self._uids)

    def of(self, owner: ObjectMeta) -> Owned:
        # Not by index, which would keep an entry of each owner that is asked for.
        return self._owned.get((owner.namespace, owner.uid)) or Owned()

    def owner_changed(self, key: str, owner: AnyObject | None) -> None:
        """Note an owner that is new or gone."""
        namespace = key.partition("/")[0]
        before, uid = self._uids.get(key), owner.metadata.uid if owner is not None else ""
        if before == uid:
            return
        if before is not None:
            del self._uids[key]
            selectors = self._selectors[namespace]
            selectors.remove(key)
            if not selectors.items:
                del self._selectors[namespace]
            owned = self._owned.get((namespace, before))
            if owned is not None and not owned.pods.all:
                del self._owned[namespace, before]
        if owner is None:
            return
        self._uids[key] = uid
        selector = self._selector_of(owner)
        self._selectors.setdefault(namespace, SelectorIndex()).put(key, selector, selector)
        owned = self._owned[namespace, uid]
        for pod_key in list(owned.pods.all):
            pod = find(self.objects, Pod, pod_key)
            if pod is not None:
                owned.pods.put(self._record_of(pod_key, pod, key))

    def pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        """Note a change of a pod, and notify the owners that it concerns."""
        before = self.owner_of(old)
        after = self.owner_of(new)
        if old is not None and before is not None:
            if after is None or after.uid != before.uid:
                self._pod_left(key, before)
            if new is None or new.metadata.uid != old.metadata.uid:
                owned = self._owned.get((old.metadata.namespace, before.uid))
                if owned is not None:
                    owned.forget_writes(old.metadata.uid)
        if not isinstance(new, Pod):
            return
        if after is not None:
            self._put(key, new, after)
        elif (
            self._uids  # First, because comparing labels costs the most here.
            and controller_of(new.metadata) is None
            and (old is None or _may_match_now(old, new))
        ):
            self.look_for_owners(key, new)

    def owner_of(self, pod: AnyObject | None) -> OwnerReference | None:
        """Return the reference to the controller of a pod, if that is of this kind."""
        if pod is None or not pod.metadata.owner_references:
            return None
        found = controller_of(pod.metadata)
        if found is None or found.kind != self.kind.name:
            return None
        return found if found.api_version == self.kind.api_version else None

    def _pod_left(self, key: str, owner: OwnerReference) -> None:
        namespace = key.partition("/")[0]
        owned = self._owned.get((namespace, owner.uid))
        if owned is None:
            return
        record = owned.pods.remove(key)
        if record is not None:
            owned.releasing.pop(record.uid, None)
        owner_key = f"{namespace}/{owner.name}"
        if not owned.pods.all and self._uids.get(owner_key) != owner.uid:
            del self._owned[namespace, owner.uid]
        self.notify(owner_key)

    def _put(self, key: str, pod: Pod, owner: OwnerReference) -> None:
        owned = self._owned[pod.metadata.namespace, owner.uid]
        owner_key = f"{pod.metadata.namespace}/{owner.name}"
        record = self._record_of(key, pod, owner_key)
        owned.creating.pop(key, None)
        owned.adoptable.pop(key, None)
        if record.is_deleting:
            owned.deleting.pop(record.uid, None)
        if owned.pods.all.get(key) != record:
            owned.pods.put(record)
            self.notify(owner_key)

    def look_for_owners(self, key: str, pod: Pod) -> None:
        """Let the owners that select a pod adopt it."""
        for owner in self.owners_for(pod):
            self._owned[pod.metadata.namespace, self._uids[owner]].adoptable[key] = None
            self.notify(owner)

    def owners_for(self, pod: Pod) -> list[str]:
        """Return the keys of the owners that select a pod."""
        index = self._selectors.get(pod.metadata.namespace)
        labels = pod.metadata.labels
        found = index.asking_for(labels) if index is not None else {}
        return [owner for owner, selector in found.items() if selector.matches(labels)]

    def may_adopt(self, owner: str, key: str, pod: Pod) -> bool:
        """Return whether an owner selects a pod that no other owner is adopting.

        Of two waiting writes the later would replace the other, and both would count the pod.
        """
        owners, namespace = self.owners_for(pod), pod.metadata.namespace
        others = (self._owned[namespace, self._uids[other]] for other in owners if other != owner)
        return owner in owners and not any(key in other.creating for other in others)

    def _record_of(self, key: str, pod: Pod, owner_key: str) -> OwnedPod:
        index = self._selectors.get(pod.metadata.namespace)
        selector = index.items.get(owner_key) if index is not None else None
        return record_of(key, pod, selector is None or selector.matches(pod.metadata.labels))


def _may_match_now(old: AnyObject, new: Pod) -> bool:
    """Return whether a pod without a controller had another one, or other labels."""
    return old.metadata.labels != new.metadata.labels or controller_of(old.metadata) is not None
