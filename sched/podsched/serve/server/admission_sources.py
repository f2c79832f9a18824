"""The objects that admission looks up, compiled when they change in the watch cache.

Creating a pod looks up only the classes that it names and, in one dictionary, its namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import (
    AnyObject,
    LimitRange,
    Pod,
    PodGroup,
    PriorityClass,
    RuntimeClass,
    StorageClass,
    Workload,
)
from podsched.api.priorities import PriorityClasses
from podsched.api.storage_classes import default_class
from podsched.serve.server import errors
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.entries import Entry
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import StoreError

_PRIORITY_CLASS, _RUNTIME_CLASS = KINDS["PriorityClass"], KINDS["RuntimeClass"]
_LIMIT_RANGE, _STORAGE_CLASS = KINDS["LimitRange"], KINDS["StorageClass"]
_WORKLOAD = KINDS["Workload"]
#: Kinds that affect admission: a write of one is answered once this server's cache has it.
_POLICIES = frozenset({_LIMIT_RANGE.name, _STORAGE_CLASS.name, "Namespace"})
#: Max seconds to wait for that. If the cache lags longer, all reads wait for etcd anyway.
_SETTLE_SECONDS = 1.0


class AdmissionSources:
    """The policies and classes used in admission, read from the watch cache."""

    def __init__(self, cache: WatchCache, reflector: CacheReflector) -> None:
        self._cache = cache
        self._reflector = reflector
        self._classes = PriorityClasses()
        self._classes_at = -1
        self._ranges: dict[str, list[LimitRange]] = {}
        self._ranges_at = -1
        self._default_class = ""
        self._default_class_at = -1

    def priority_classes(self) -> PriorityClasses:
        """Return the compiled PriorityClasses."""
        changed_at = self._cache.last_change(_PRIORITY_CLASS)
        if changed_at != self._classes_at:
            found = [entry.message for entry in self._cache.objects(_PRIORITY_CLASS).values()]
            self._classes = PriorityClasses([m for m in found if isinstance(m, PriorityClass)])
            self._classes_at = changed_at
        return self._classes

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """Return a RuntimeClass by name, None if it does not exist."""
        entry = self._cache.get(_RUNTIME_CLASS, name) if name else None
        message = entry.message if entry is not None else None
        return message if isinstance(message, RuntimeClass) else None

    def default_storage_class(self) -> str:
        """Return the name of the default StorageClass, "" if none is."""
        changed_at = self._cache.last_change(_STORAGE_CLASS)
        if changed_at != self._default_class_at:
            found = [entry.message for entry in self._cache.objects(_STORAGE_CLASS).values()]
            self._default_class = default_class(m for m in found if isinstance(m, StorageClass))
            self._default_class_at = changed_at
        return self._default_class

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """Return the LimitRanges of a namespace, sorted by name."""
        changed_at = self._cache.last_change(_LIMIT_RANGE)
        if changed_at != self._ranges_at:
            self._ranges = {}
            for entry in self._cache.in_order(_LIMIT_RANGE):
                message = entry.message
                if isinstance(message, LimitRange):
                    self._ranges.setdefault(message.metadata.namespace, []).append(message)
            self._ranges_at = changed_at
        return self._ranges.get(namespace, ())

    def workload_of(self, group: PodGroup) -> Workload | None:
        """Return the Workload that a PodGroup names, None if it does not exist."""
        name = group.spec.pod_group_template_ref.workload.workload_name
        key = local_key(_WORKLOAD, group.metadata.namespace or DEFAULT_NAMESPACE, name)
        entry = self._cache.get(_WORKLOAD, key) if name else None
        message = entry.message if entry is not None else None
        return message if isinstance(message, Workload) else None

    def know(self, message: AnyObject) -> bool:
        """Return whether the cache has the classes and the Workload that an object names."""
        if not isinstance(message, Pod | PodGroup):
            return True
        priority = message.spec.priority_class_name
        if priority and self.priority_classes().get(priority) is None:
            return False
        if isinstance(message, PodGroup):
            named = message.spec.pod_group_template_ref.workload.workload_name
            return not named or self.workload_of(message) is not None
        runtime = message.spec.runtime_class_name
        return not runtime or self.runtime_class(runtime) is not None

    async def refresh(self) -> None:
        """Wait until the cache shows all writes of other servers. Raises ApiError."""
        try:
            await self._reflector.wait_until_fresh()
        except StoreError as error:
            raise errors.of_store(error) from error

    async def settle(self, written: Iterable[object]) -> None:
        """Wait until the cache has the written objects, if they affect admission."""
        revisions = [
            item.revision
            for item in written
            if isinstance(item, Entry) and item.kind.name in _POLICIES
        ]
        if not revisions:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self._cache.wait_for(max(revisions))
