"""What admission looks up, compiled when the watch cache has something new.

A pod's creation costs look-ups of what the pod names, and of its namespace in one dictionary.
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
#: What the next object is admitted by: a change of it is answered once this server goes by it.
_POLICIES = frozenset({_LIMIT_RANGE.name, _STORAGE_CLASS.name, "Namespace"})
#: Seconds to wait for that. A cache that is later than this waits for etcd, as all reads do.
_SETTLE_SECONDS = 1.0


class AdmissionSources:
    """Objects that others are admitted by, as of the watch cache."""

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
        """Return the PriorityClasses."""
        changed_at = self._cache.last_change(_PRIORITY_CLASS)
        if changed_at != self._classes_at:
            found = [entry.message for entry in self._cache.objects(_PRIORITY_CLASS).values()]
            self._classes = PriorityClasses([m for m in found if isinstance(m, PriorityClass)])
            self._classes_at = changed_at
        return self._classes

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """Return the RuntimeClass of this name, if there is one."""
        entry = self._cache.get(_RUNTIME_CLASS, name) if name else None
        message = entry.message if entry is not None else None
        return message if isinstance(message, RuntimeClass) else None

    def default_storage_class(self) -> str:
        """Return the name of the default StorageClass, "" if there is none."""
        changed_at = self._cache.last_change(_STORAGE_CLASS)
        if changed_at != self._default_class_at:
            found = [entry.message for entry in self._cache.objects(_STORAGE_CLASS).values()]
            self._default_class = default_class(m for m in found if isinstance(m, StorageClass))
            self._default_class_at = changed_at
        return self._default_class

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """Return the LimitRanges of a namespace, in the order of their names."""
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
        """Return the Workload that a PodGroup names, if there is one."""
        name = group.spec.pod_group_template_ref.workload.workload_name
        key = local_key(_WORKLOAD, group.metadata.namespace or DEFAULT_NAMESPACE, name)
        entry = self._cache.get(_WORKLOAD, key) if name else None
        message = entry.message if entry is not None else None
        return message if isinstance(message, Workload) else None

    def know(self, message: AnyObject) -> bool:
        """Return whether the classes and the Workload that an object names are in the cache."""
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
        """Wait for what has been created through another server a moment ago. Raises ApiError."""
        try:
            await self._reflector.wait_until_fresh()
        except StoreError as error:
            raise errors.of_store(error) from error

    async def settle(self, written: Iterable[object]) -> None:
        """Wait until this server admits by what it has just written, where others depend on it."""
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
