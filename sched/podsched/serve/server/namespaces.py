"""The lifecycle of namespaces: created on demand or required, terminating, removed once empty.

    state         create in it     delete it                     next state
    missing       created, refused -                             Active
    Active        accepted         marked, phase Terminating     Terminating
    Terminating   refused          no effect while not empty     Terminating
    Terminating   refused          finalizers are removed        removed once it has none

The leader's namespace controller deletes the content and then the namespace again. Source:
plugin/pkg/admission/namespace and pkg/registry/core/namespace of Kubernetes 1.36. In gRPC, deleting
an empty namespace has the effect of their ``finalize`` subresource; in REST only ``finalize``
removes it, and a second deletion has no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable

from podsched.api.conditions import is_terminating
from podsched.api.defaulting import NAMESPACE_TERMINATING, default_object
from podsched.api.kinds import KINDS, Kind
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import AnyObject, Namespace, timestamp
from podsched.api.owners import KUBERNETES_FINALIZER
from podsched.api.priorities import PriorityClasses
from podsched.serve.server import errors
from podsched.serve.server.admission import encoded
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import Violation
from podsched.serve.server.mutations import New, Step
from podsched.serve.server.new_objects import NewObjects
from podsched.serve.server.watchcache import Derived, WatchCache

NAMESPACE = KINDS["Namespace"]
_CONTENT = tuple(kind for kind in KINDS.values() if kind.namespaced)
#: An Event does not create its namespace: a late one must not bring back a deleted namespace.
_NOT_CREATED_ON_DEMAND = "Event"


class Namespaces:
    """Namespaces in the watch cache; ``required``: do not create missing ones on demand."""

    def __init__(
        self,
        new_objects: NewObjects,
        cache: WatchCache,
        reflector: CacheReflector,
        *,
        required: bool,
        now: Callable[[], float],
        new_uid: Callable[[], str],
    ) -> None:
        self._new_objects = new_objects
        self._cache = cache
        self._reflector = reflector
        self._required = required
        self._now = now
        self._new_uid = new_uid
        #: By name, whether each namespace accepts new objects.
        self._states = Derived(
            cache,
            lambda: {m.metadata.name: not is_terminating(m) for m in cache.messages(NAMESPACE)},
            NAMESPACE,
        )

    def accepts(self, kind: Kind, message: AnyObject) -> bool:
        """Return whether the namespace of a new object exists and is not terminating.

        This is one dictionary lookup. If it returns False, ``check`` decides.
        """
        if not kind.namespaced:
            return True
        return self._states().get(message.metadata.namespace or DEFAULT_NAMESPACE, False)

    async def check(
        self,
        kind: Kind,
        message: AnyObject,
        in_batch: Container[str],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        """Raise ApiError if the namespace is terminating, or missing and required.

        in_batch: names of the namespaces that the object's batch creates. refresh: waits until the
        cache shows all writes before the call.
        """
        name = message.metadata.namespace or DEFAULT_NAMESPACE
        if self._required and name not in in_batch:
            await self.require(name, refresh)
        if self._states().get(name) is False:
            why = f"unable to create new content in namespace {name} because it is being terminated"
            error = errors.forbidden(kind, message.metadata.name, why)
            cause = f"namespace {name} is being terminated"
            error.violations = (Violation("metadata.namespace", cause, "NamespaceTerminating"),)
            raise error

    async def require(
        self, name: str, refresh: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Raise ApiError NOT_FOUND for a namespace that does not exist."""
        if name in self._states():
            return
        # Another server may have just created it.
        await (refresh or self._reflector.wait_until_fresh)()
        if name not in self._states():
            raise errors.not_found(NAMESPACE, name)

    async def create_missing(self, items: Iterable[New], in_batch: Container[str]) -> None:
        """Create the missing namespaces of new objects.

        in_batch: names of the namespaces that the batch itself creates. Failures are ignored,
        because the writes of the objects report them.
        """
        if self._required:
            return
        states = self._states()
        missing = {
            name: None
            for item in items
            if item.kind.namespaced and item.kind.name != _NOT_CREATED_ON_DEMAND
            if (name := item.key.partition("/")[0]) not in states and name not in in_batch
        }
        if not missing:
            return
        made = await self._new_objects.create([self._new(name) for name in missing], None)
        revisions = [outcome.revision for outcome in made if isinstance(outcome, Entry)]
        # Else they exist, or the store does not answer, which the objects' own writes will report.
        if revisions:
            await self._cache.progress.settle(max(revisions))

    async def is_emptied(self, name: str) -> bool:
        """Return whether a namespace is terminating and contains no objects. Raises ApiError."""
        await self._reflector.wait_until_fresh()
        # Undecodable objects are content, too, although no list shows them.
        return self._states().get(name) is False and not any(
            key.startswith(f"{name}/")
            for kind in _CONTENT
            for keys in (self._cache.objects(kind), self._cache.unreadable(kind))
            for key in keys
        )

    def _new(self, name: str) -> New:
        message = Namespace()
        message.metadata.name = name
        default_object(
            message, now=self._now(), uid=self._new_uid(), priority_classes=PriorityClasses()
        )
        return New(NAMESPACE, name, encoded(NAMESPACE, message))


def namespace_deletion_step(entry: Entry, now: float, *, emptied: bool) -> Step | None:
    """Return the step of a namespace's deletion; ``emptied``: it is terminating and empty."""
    message = entry.decode()
    assert isinstance(message, Namespace)
    if not is_terminating(message):
        message.metadata.deletion_timestamp.CopyFrom(timestamp(now, whole=True))
        message.status.phase = NAMESPACE_TERMINATING
        if KUBERNETES_FINALIZER not in message.spec.finalizers:
            message.spec.finalizers.append(KUBERNETES_FINALIZER)
        return Step(message.SerializeToString())
    if not emptied:
        return None
    kept = [name for name in message.spec.finalizers if name != KUBERNETES_FINALIZER]
    if not kept and not message.metadata.finalizers:
        return Step(None)
    if len(kept) == len(message.spec.finalizers):
        return None
    message.spec.finalizers[:] = kept
    return Step(message.SerializeToString())
