"""Compacts etcd's history, as kube-apiserver does; one of several API servers at a time.

etcd keeps every revision of every key until it is compacted; 300 idle nodes fill its default quota
in 59 hours, after which it refuses all writes. The servers coordinate by compare-and-set on one
key, whose version counts the compactions (kube-apiserver's ``compactor``, etcd3/compact.go):

    every interval: if the key still has the version seen last time
                      yes: put the current revision into it; compact to the revision seen last time
                      no:  another server was first; take over its version and revision

So history is kept for one to two intervals, for any number of servers.
"""

from __future__ import annotations

import asyncio

from podsched.api.etcd_keys import COMPACTION
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Compare, Get, Put, Store
from podsched.telemetry.logs import get_logger

_log = get_logger("compaction")


class Compactor:
    """Compacts every ``interval`` seconds; 0: never.

    ``compacted`` is the revision of its last compaction, 0 before its first.
    """

    def __init__(self, store: Store, interval: float) -> None:
        self._store = store
        self._interval = interval
        self._version = 0
        self._revision = 0
        self.compacted = 0

    async def run(self) -> None:
        """Compact until cancelled; retry after a store failure in the next interval."""
        while self._interval > 0:
            await asyncio.sleep(self._interval)
            try:
                await self._compact()
            except StoreError as error:
                _log.warning("Could not compact etcd", error=str(error))

    async def _compact(self) -> None:
        """Compact to the revision seen last time, unless another server has. Raises StoreError."""
        target = self._revision
        seen = await self._store.txn(
            [Compare.version_is(COMPACTION, self._version)],
            [Put(COMPACTION, str(target).encode())],
            [Get(COMPACTION)],
        )
        self._revision = seen.revision
        if not seen.succeeded:
            kv = seen.kvs[0]
            self._version = kv.version if kv is not None else 0
            return
        self._version += 1
        if target:
            await self._store.compact(target)
            self.compacted = target
            _log.info("Compacted etcd", revision=target)
