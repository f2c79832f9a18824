"""Indexes the quotas in the watch cache by namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.kinds import KINDS
from podsched.serve.server.entries import Entry
from podsched.serve.server.watchcache import WatchCache

QUOTA = KINDS["ResourceQuota"]


class QuotaIndex:
    """Quotas by namespace; rebuilt when one has changed."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._keys: dict[str, list[str]] = {}
        self._found_at = -1

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self._cache.objects(QUOTA))

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces with quotas."""
        return self._by_namespace()

    def of(self, namespace: str) -> Sequence[Entry]:
        """Return the quotas of a namespace."""
        quotas = self._cache.objects(QUOTA)
        return [quotas[key] for key in self._by_namespace().get(namespace, ())]

    def _by_namespace(self) -> dict[str, list[str]]:
        changed_at = self._cache.last_change(QUOTA)
        if changed_at != self._found_at:
            self._keys, self._found_at = {}, changed_at
            for key in self._cache.objects(QUOTA):
                self._keys.setdefault(key.partition("/")[0], []).append(key)
        return self._keys
