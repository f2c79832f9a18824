"""Set aside objects that the scheduler cannot use, until they change.

API servers refuse such objects, but other programs and other versions write to etcd, too. If the
cache or the queues cannot read an object, it is logged with its key, counted and ignored. So are
pods that keep ending terms (``FaultyPods``). The leader reports pods that are set aside.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from podsched.api.objects import AnyObject, Pod
from podsched.cache.cache import Cache
from podsched.cache.changes import NOTHING, Applied
from podsched.serve.client.informer import Event
from podsched.telemetry.logs import get_logger
from podsched.term.admission.changes import check_readable
from podsched.term.faulty_pods import FaultyPods

#: What is said of a pod that is set aside, with the reason.
IGNORED: Final = "the pod cannot be used and is ignored until it changes: {}"

_log = get_logger("scheduler")


class Unusable(NamedTuple):
    """An object that is set aside, and why."""

    item: AnyObject
    reason: str


class SetAside:
    """The objects of one scheduling state that are set aside."""

    def __init__(self, faulty_pods: FaultyPods | None = None) -> None:
        """``faulty_pods`` outlives the scheduling state."""
        self.faulty_pods = faulty_pods or FaultyPods()
        self._objects: dict[tuple[str, str], Unusable] = {}
        #: Keys of pods that have not been reported yet; only the leader reports them.
        self._unreported: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def reason(self, kind: str, key: str) -> str:
        """Return why an object is set aside; "" for one that is not."""
        found = self._objects.get((kind, key))
        return found.reason if found is not None else ""

    def take_unreported(self) -> Collection[tuple[Pod, str]]:
        """Return pods that were set aside since the last call and still are, and why."""
        if not self._unreported:
            return ()
        keys, self._unreported = self._unreported, {}
        found = [one for key in keys if (one := self._objects.get(("Pod", key))) is not None]
        return [
            (one.item, one.reason)
            for one in found
            if isinstance(one.item, Pod) and not one.item.spec.node_name
        ]

    def apply(self, cache: Cache, event: Event) -> Applied:
        """Apply an event to the cache; remove an object from it that it cannot use any more."""
        before = self._objects.pop((event.kind, event.key), None) if self._objects else None
        if before is not None:
            if event.new is None:
                if event.kind == "Pod":
                    self._unreported.pop(event.key, None)
                return NOTHING
            event = event._replace(old=None)  # The cache does not have the earlier version.
        item = event.new
        if isinstance(item, Pod) and (verdict := self.faulty_pods.reason(event.key, item)):
            self._set_aside(event, item, verdict, before)
        else:
            try:
                if item is not None:
                    check_readable(event.kind, item)
                return cache.apply(event.kind, event.old, item)
            except Exception as error:
                if item is None:
                    raise  # removing an object needs nothing of its content
                reason = f"{type(error).__name__}: {error}"
                # A ValueError says what is wrong with the object; only other errors need a trace.
                bug = None if isinstance(error, ValueError) else error
                self._set_aside(event, item, reason, before, bug)
        # The cache may still have an earlier version, which could be read.
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
        # An object that changes but stays unusable for the same reason is reported only once.
        if before is not None and before.reason == reason:
            return
        _log.warning(
            "An object cannot be used and is set aside",
            kind=event.kind,
            name=event.key,
            error=reason,
            exc_info=bug,
        )
        if event.kind == "Pod":
            self._unreported[event.key] = None
