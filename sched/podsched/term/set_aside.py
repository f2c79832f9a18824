"""Objects that the scheduler cannot use: set aside until they change.

API servers refuse such objects, but other programs and other versions write to etcd, too. What the
cache raises for one is a fault of that object: it is logged with its key, counted, and to the
scheduler not there; everything else goes on. So are pods on which terms keep ending (``Blame``).
A pod is reported by the replica that leads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from podsched.api.objects import AnyObject, Pod
from podsched.cache.cache import Cache
from podsched.cache.changes import NOTHING, Applied
from podsched.serve.client.informer import Event
from podsched.telemetry.logs import get_logger
from podsched.term.blame import Blame

_log = get_logger("scheduler")


class Unusable(NamedTuple):
    """An object that is set aside, and why."""

    item: AnyObject
    reason: str


class SetAside:
    """The objects of one scheduling state that are set aside."""

    def __init__(self, blame: Blame | None = None) -> None:
        """``blame`` outlives the state."""
        self.blame = blame or Blame()
        self._objects: dict[tuple[str, str], Unusable] = {}
        #: Pods of which nobody has been told yet; a replica that does not lead only collects them.
        self._unreported: dict[str, Pod] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def reason(self, kind: str, key: str) -> str:
        """Return why an object is set aside; "" for one that is not."""
        found = self._objects.get((kind, key))
        return found.reason if found is not None else ""

    def take_unreported(self) -> Collection[tuple[Pod, str]]:
        """Return pods that were set aside since the last call, and why."""
        if not self._unreported:
            return ()
        pods, self._unreported = self._unreported, {}
        return [(pod, self.reason("Pod", key)) for key, pod in pods.items()]

    def apply(self, cache: Cache, event: Event) -> Applied:
        """Have the cache take over an event, as if objects that it cannot use were not there."""
        before = self._objects.pop((event.kind, event.key), None) if self._objects else None
        if before is not None:
            self._unreported.pop(event.key, None)
            if event.new is None:
                return NOTHING
            event = event._replace(old=None)  # the cache has not seen what was before
        item = event.new
        if isinstance(item, Pod) and (verdict := self.blame.verdict(event.key, item)):
            self._set_aside(event, item, verdict, before)
        else:
            try:
                return cache.apply(event.kind, event.old, item)
            except Exception as error:
                if item is None:
                    raise  # nothing of a removed object has to be understood
                reason = f"{type(error).__name__}: {error}"
                bug = None if isinstance(error, ValueError) else error
                self._set_aside(event, item, reason, before, bug)
        metadata = item.metadata
        known = cache.cluster.get(event.kind, metadata.namespace, metadata.name)
        return NOTHING if known is None else cache.apply(event.kind, known, None)

    def _set_aside(
        self,
        event: Event,
        item: AnyObject,
        reason: str,
        before: Unusable | None,
        bug: Exception | None = None,
    ) -> None:
        self._objects[event.kind, event.key] = Unusable(item, reason)
        if before is not None and before.reason == reason:
            return
        _log.warning(
            "An object cannot be used and is set aside",
            kind=event.kind,
            name=event.key,
            error=reason,
            exc_info=bug,
        )
        if isinstance(item, Pod) and not item.spec.node_name:
            self._unreported[event.key] = item
