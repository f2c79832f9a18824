"""The PriorityClasses that admission looks up, compiled when the watch cache has new ones."""

from __future__ import annotations

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Pod, PriorityClass
from podsched.api.priorities import PriorityClasses
from podsched.server import errors
from podsched.server.cache_reflector import CacheReflector
from podsched.server.watchcache import WatchCache
from podsched.store.errors import StoreError

_KIND = KINDS["PriorityClass"]


class PriorityClassCache:
    """PriorityClasses as of the watch cache."""

    def __init__(self, cache: WatchCache, reflector: CacheReflector) -> None:
        self._cache = cache
        self._reflector = reflector
        self._classes = PriorityClasses()
        self._compiled_at = -1

    def current(self) -> PriorityClasses:
        """Return the classes in the watch cache."""
        changed_at = self._cache.last_change(_KIND)
        if changed_at != self._compiled_at:
            found = [entry.message for entry in self._cache.objects(_KIND).values()]
            self._classes = PriorityClasses([m for m in found if isinstance(m, PriorityClass)])
            self._compiled_at = changed_at
        return self._classes

    async def ensure_known(self, message: AnyObject) -> None:
        """Wait for the cache when a pod names a class that is not in it. Raises ApiError.

        The class may have been created through another server a moment ago.
        """
        name = message.spec.priority_class_name if isinstance(message, Pod) else ""
        if name and self.current().get(name) is None:
            try:
                await self._reflector.wait_until_fresh()
            except StoreError as error:
                raise errors.of_store(error) from error
