"""Creates objects in etcd: each is written if its key is absent.

A fence is checked in the same etcd transaction as the write that it guards. The items of a batch
succeed or fail independently, but share etcd transactions.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.etcd_keys import name_in, object_key
from podsched.serve.server import errors
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import New, Outcome, creation_refusal, may_be_lock, still_leads
from podsched.serve.server.storage import after_fault, in_parts, judged_all, stored, write_all
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Compare, Put, Store, Write, WriteOp, WriteOutcome
from podsched.v1.api_pb2 import Fence


class NewObjects:
    """Stores new objects."""

    def __init__(self, store: Store, cache: WatchCache, reflector: CacheReflector) -> None:
        self._store = store
        self._cache = cache
        self._reflector = reflector

    async def check_free(self, item: New) -> None:
        """Raise ApiError ALREADY_EXISTS if the key of a new object is taken."""
        if await stored(self._store, item.kind, item.key) is not None:
            raise errors.already_exists(item.kind, name_in(item.key))

    async def create(self, items: Sequence[New], fence: Fence | None) -> list[Outcome]:
        """Store new objects, each independently; return each stored object or its error."""
        # A fenced create is always written: its author must learn of a lost fence, not of a name.
        taken = {} if fence is not None else await self._already_existing(items)
        free = [item for at, item in enumerate(items) if at not in taken]
        created = iter(await in_parts(free, lambda part: self._create(part, fence)))
        return [taken.get(at) or next(created) for at in range(len(items))]

    async def _already_existing(self, items: Sequence[New]) -> dict[int, ApiError]:
        """Return ALREADY_EXISTS errors by index for the items whose names are taken.

        These items are not written, because etcd replicates even failing writes through its log. An
        object in the cache may be deleted already, so this waits until the cache is fresh.
        """
        known = [
            at
            for at, item in enumerate(items)
            if self._cache.get(item.kind, item.key) is not None and not may_be_lock(item)
        ]
        if not known:
            return {}
        try:
            await self._reflector.wait_until_fresh()
        except ApiError as error:
            return dict.fromkeys(known, error)
        return {
            at: errors.already_exists(items[at].kind, name_in(items[at].key))
            for at in known
            if self._cache.get(items[at].kind, items[at].key) is not None
        }

    async def _create(self, items: Sequence[New], fence: Fence | None) -> list[Outcome]:
        # Noted before the write, because the watch may deliver it before the answer comes.
        for item in items:
            self._cache.written.note(item.kind, item.key, item.value)
        leads = still_leads(fence)
        writes = [Write((*item.compares, *leads), item.ops) for item in items]
        results = await write_all(self._store, writes)
        judged = (
            _created(self._store, item, result, fence)
            for item, result in zip(items, results, strict=True)
        )
        return await judged_all(results, judged)

    async def create_and_change(
        self, items: Sequence[New], changes: Sequence[tuple[Entry, bytes]], fence: Fence | None
    ) -> tuple[list[Outcome | None], dict[str, Entry | None]]:
        """Store new objects and new versions of others in one transaction, all or none.

        changes: the expected version of each object, and its new bytes. Returns the outcome of each
        item, None if only other objects prevented the write; and, by local key, the current
        versions (None: deleted) of the ``changes`` that were not at the expected one.
        """
        compares, ops = [*still_leads(fence)], list[WriteOp]()
        for item in items:
            self._cache.written.note(item.kind, item.key, item.value)
            compares += item.compares
            ops += item.ops
        for base, value in changes:
            self._cache.written.note(base.kind, base.key, value)
            key = object_key(base.kind, base.key)
            compares.append(Compare.mod_revision_is(key, base.revision))
            ops.append(Put(key, value))
        (result,) = await write_all(self._store, [Write(compares, ops)])
        if isinstance(result, StoreError) or result.succeeded:
            # All items share the result of the one transaction.
            judged = (_created(self._store, item, result, fence) for item in items)
            return [*await judged_all([result], judged)], {}
        outcomes: list[Outcome | None] = [
            creation_refusal(item, fence, result.current) for item in items
        ]
        different: dict[str, Entry | None] = {}
        for base, _ in changes:
            kv = result.current.get(object_key(base.kind, base.key))
            if kv is None or kv.mod_revision != base.revision:
                different[base.key] = None if kv is None else Entry.at(base.kind, base.key, kv)
        return outcomes, different


async def _created(store: Store, item: New, result: WriteOutcome, fence: Fence | None) -> Outcome:
    """Return the outcome of a creation from the result of its write."""
    if isinstance(result, StoreError):
        return await after_fault(store, item.kind, item.key, item.value, result)
    if result.succeeded:
        revision = result.revision
        return Entry(item.kind, item.key, item.value, revision, revision)
    refused = creation_refusal(item, fence, result.current)
    return refused or errors.already_exists(item.kind, name_in(item.key))
