"""Makes etcd forget old revisions, as kube-apiserver does; one of several API servers at a time.

etcd keeps every revision of every key until it is compacted; 300 idle nodes reach its default
quota in 59 hours, and then it takes no writes any more. The servers agree by compare-and-set on
one key, whose version counts the compactions (kube-apiserver's ``compactor``, etcd3/compact.go):

    every interval: if the key still has the version seen last time
                      yes: put the current revision into it; compact to the revision seen last time
                      no:  another server was first; take over its version and revision

So history is kept for one to two intervals, whichever server compacts and however many there are.
"""

from __future__ import annotations

import asyncio

from podsched.api.etcd_keys import COMPACTION
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Compare, Get, Put, Store
from podsched.telemetry.logs import get_logger

_log = get_logger("compaction")


class Compactor:
    """Compacts every ``interval`` seconds, with 0 never.

    ``compacted`` is the revision it last compacted to, 0 as long as other servers were first.
    """

    def __init__(self, store: Store, interval: float) -> None:
        self._store = store
        self._interval = interval
        self._version = 0
        self._revision = 0
        self.compacted = 0
        self.failures = 0

    async def run(self) -> None:
        """Compact until cancelled; a store that fails is tried again in the next interval."""
        while self._interval > 0:
            await asyncio.sleep(self._interval)
            try:
                await self._compact()
            except StoreError as error:
                self.failures += 1
                _log.warning("Could not compact etcd", error=str(error))

    async def _compact(self) -> None:
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
