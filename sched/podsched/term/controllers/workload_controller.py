"""Base class of the controllers of ReplicaSets and Jobs: examines owners of pods when they are due.

An owner is examined some time after its pods changed. This time grows with the number of its pods,
so examining takes a bounded share of the time. For each version of an owner at most one status is
written, because the next one must be computed from the version that the write results in.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final

from podsched.api.codec import write
from podsched.api.manifest import merge_patch
from podsched.api.objects import AnyObject
from podsched.api.selectors import Selector, compile_selector
from podsched.lib.due_times import DueTimes, earliest
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Controller, Instant, Objects
from podsched.term.controllers.owned_pods import Owned, PodsOfOwners
from podsched.term.controllers.pod_adoption import PodAdoption
from podsched.term.controllers.pod_pass import PodPass
from podsched.term.controllers.pod_writes import PodWrites
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
        self._due = DueTimes()
        self._now = 0.0
        """Monotonic time of the last call of ``changed`` or ``work``."""
        self._written: dict[str, str] = {}
        """By key, the version of the owner from which the status being written was computed."""
        self._pods = PodsOfOwners(
            self.owner_kind, objects, selector_of=_selector_of, notify=self._notify
        )
        self._pod_writes = PodWrites(self._pods, writes, recorder)
        self._adoption = PodAdoption(self._pods, writes, self._pod_writes)
        #: Owners for which no pods to adopt have been searched among all of their namespace.
        self._unsearched = PodPass(objects, writes, self._adoption.look_at)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.owner_kind, "Pod")

    @property
    def ignores_bare_pods(self) -> bool:
        """Only while there are no owners: an owner may adopt bare pods."""
        return not self._pods.has_owners

    def pods_follow(self) -> None:
        self._unsearched.clear()

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
            self._due.advance(key, self._now)
        else:
            self._due.discard(key)
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
            pods = 0 if at_once else len(self._pods.of(owner.metadata).pods.all)
            self._due.advance(key, self._now + pods * _PER_POD)

    def work(self, now: Instant) -> float | None:
        """Examine the owners that are due, up to a number of pods."""
        self._now = now.monotonic
        self._pods.now = now.monotonic
        for key in self._unsearched.go_on(_POD_BUDGET):
            self._notify(key)
        budget = _POD_BUDGET
        for key, _ in self._due.pop_due(now.monotonic):
            owner = self._objects.get(self.owner_kind, key)
            if owner is None or key in self._unsearched:
                continue
            owned = self._pods.of(owner.metadata)
            owned.forget_lost(now.monotonic)
            with self._writes.skipping(self.owner_kind, key):
                self._sync(key, owner, owned, now)
            if owned.not_before > now.monotonic:
                self._due.advance(key, owned.not_before)
            if owned.creating:
                # The first of them ends first: all have the same time to be seen.
                self._due.advance(key, next(iter(owned.creating.values())).until)
            budget -= _PER_OWNER + len(owned.pods.all)
            if budget <= 0:
                break
        return earliest(self._due.next_time(), now.monotonic + _PAUSE if self._unsearched else None)

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
