"""Indexes the quotas in the watch cache by namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.kinds import KINDS
from podsched.serve.server.entries import Entry
from podsched.serve.server.watchcache import Derived, WatchCache

QUOTA = KINDS["ResourceQuota"]


class QuotaIndex:
    """Quotas by namespace; rebuilt when one has changed."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._keys = Derived(cache, self._by_namespace, QUOTA)

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self._cache.objects(QUOTA))

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces with quotas."""
        return self._keys()

    def of(self, namespace: str) -> Sequence[Entry]:
        """Return the quotas of a namespace."""
        quotas = self._cache.objects(QUOTA)
        return [quotas[key] for key in self._keys().get(namespace, ())]

    def _by_namespace(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key in self._cache.objects(QUOTA):
            found.setdefault(key.partition("/")[0], []).append(key)
        return found
