"""Corrects ``status.used`` of quotas by counting the objects in their namespaces.

A create is charged in its own transaction (``charging``), so objects and quotas agree at any
revision, except for uncharged changes: deletions, pods that end, and creates through a server that
had not seen a new quota yet. Counting finds these. The count of a namespace and its quotas are both
taken from the watch cache at one revision, and the corrected status is written only if the quota is
unchanged since that revision. Otherwise it has been charged meanwhile, and is corrected by the next
recount. Every server does this; the first one to write wins.

A namespace is counted in full when its first quota appears, and incrementally from then on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS, Kind
from podsched.api.objects import Pod, ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Usage, ends_at, is_counted, set_used, usage_of
from podsched.api.quota_scopes import PodScopes, expressions_of, is_in_scope, scopes_of
from podsched.api.resources import Amounts
from podsched.lib.groups import lists_by_key
from podsched.serve.server import errors
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.change_ring import Change, ExpiredError
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.watchcache import Derived, WatchCache
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Compare, Put, Store, Write
from podsched.telemetry.logs import get_logger

_log = get_logger("quotas")

#: Min seconds from a change to the recount, and max random addition, so that one server is first.
_PAUSE, _SPREAD = 0.1, 0.1
_AFTER_FAULT = 1.0
#: Seconds between two checks for pods past their deletion time.
_LOOK_EVERY = 30.0
#: Objects or changes counted before yielding to other calls.
_TURN = 100
#: Attempts to correct a status while creates change it.
_ATTEMPTS = 4

#: Max distinct usages that are shared.
_MAX_SHARED = 1000

_COUNTED = tuple(kind for kind in KINDS.values() if is_counted(kind))
_POD = KINDS["Pod"]
QUOTA = KINDS["ResourceQuota"]
#: Kinds that must be decoded, because more is counted than the number of objects.
_DECODED_KINDS = (_POD, KINDS["PersistentVolumeClaim"], KINDS["Service"])


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
        return lists_by_key((key.partition("/")[0], key) for key in self._cache.objects(QUOTA))


class Tally:
    """The total usage of the objects in a namespace, updated object by object."""

    def __init__(self) -> None:
        #: Totals of pods by their scopes, and of all other objects under None.
        self._totals: dict[PodScopes | None, Amounts] = {}
        #: Whether the total has changed since it was compared with the quotas.
        self.changed = True
        #: By key, the revisions of the quotas with which it was compared.
        self.compared: dict[str, int] = {}
        self._usages: dict[tuple[str, str], Usage] = {}
        #: Pods that are counted only until their deletion time, which comes without a change, with
        #: that time.
        self._terminating_pods: dict[tuple[str, str], tuple[float, Entry]] = {}
        #: Equal usages, of which only one is kept.
        self._same: dict[tuple[object, ...], Usage] = {}

    def total(self, quota: ResourceQuota) -> Amounts:
        """Return the total usage of the objects that a quota counts."""
        expressions = expressions_of(quota.spec)
        found: Amounts = {}
        for scopes, amounts in self._totals.items():
            if is_in_scope(expressions, scopes):
                for resource, amount in amounts.items():
                    found[resource] = found.get(resource, Fraction(0)) + amount
        return found

    def set(self, kind: Kind, key: str, entry: Entry | None, now: float) -> None:
        """Set the current version of an object; None: deleted."""
        name = kind.name, key
        usage = self._usage(kind, entry, name, now)
        before = self._usages.pop(name, None)
        if usage is not None:
            self._usages[name] = usage
        if usage is before:
            return
        self.changed = True
        for used, sign in ((before, -1), (usage, 1)):
            if used is None:
                continue
            total = self._totals.setdefault(used.scopes, {})
            for resource, amount in used.amounts.items():
                total[resource] = total.get(resource, Fraction(0)) + sign * amount
                if not total[resource]:
                    # Resources are named after classes, whose names clients choose.
                    del total[resource]
            if not total:
                del self._totals[used.scopes]

    def stop_counting_ended_pods(self, now: float) -> None:
        """Stop counting pods whose deletion time has passed."""
        ended = [entry for end, entry in self._terminating_pods.values() if end < now]
        for entry in ended:
            self.set(_POD, entry.key, entry, now)

    def _usage(
        self, kind: Kind, entry: Entry | None, name: tuple[str, str], now: float
    ) -> Usage | None:
        self._terminating_pods.pop(name, None)
        if entry is None:
            return None
        message = entry.decode() if kind in _DECODED_KINDS else kind.new()
        if isinstance(message, Pod) and now <= (end := ends_at(message)) < float("inf"):
            self._terminating_pods[name] = end, entry
        try:
            usage = Usage(usage_of(kind, message, now), scopes_of(message))
        except QuantityError:  # not written by an API server
            usage = Usage(usage_of(kind, kind.new(), now), scopes_of(kind.new()))
        # Most pods have the same usage, so they share one dictionary.
        if len(self._same) >= _MAX_SHARED:
            self._same.clear()
        return self._same.setdefault((frozenset(usage.amounts.items()), usage.scopes), usage)


class UsageRecounter:
    """Counts the objects of namespaces with quotas, and corrects the status of the quotas.

    now: Unix time in seconds.
    """

    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        reflector: CacheReflector,
        quotas: QuotaIndex,
        *,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._cache = cache
        self._reflector = reflector
        self._quotas = quotas
        self._now = now
        self._tallies: dict[str, Tally] = {}
        #: The position in the cache's changes up to which all tallies are current.
        self._position = 0
        #: Held while the position in the cache's changes is moved.
        self._counting = asyncio.Lock()

    async def run(self) -> None:
        """Recount after changes until cancelled."""
        while True:
            # Before the recount, so that changes made meanwhile are counted without waiting for
            # more.
            seen = self._cache.revision
            try:
                await self._recount_all()
            except ApiError as error:
                _log.info("Could not correct quotas", error=str(error))
                await asyncio.sleep(_AFTER_FAULT)
                continue
            if self._cache.revision == seen:
                await asyncio.wait([self._cache.progress.next_change()], timeout=_LOOK_EVERY)
            await asyncio.sleep(_PAUSE + _SPREAD * random.random())

    async def recounted(self, namespace: str) -> dict[str, Entry]:
        """Return a namespace's quotas by key, after counting all writes completed before.

        Raises ApiError.
        """
        await self._reflector.wait_until_fresh()
        async with self._counting:
            for _ in range(_ATTEMPTS):
                found = await self._recount(namespace)
                if found is not None:
                    return found
        return {entry.key: entry for entry in self._quotas.of(namespace)}

    async def _recount_all(self) -> None:
        if not self._quotas:
            self._tallies.clear()
            return
        async with self._counting:
            await self._catch_up()
            namespaces = list(self._quotas.namespaces())
            for gone in self._tallies.keys() - set(namespaces):
                del self._tallies[gone]
        now = self._now()
        for namespace in namespaces:
            # Each on its own: who waits for a recount need not wait for those of all namespaces.
            async with self._counting:
                tally = self._tallies.get(namespace)
                if tally is not None:
                    tally.stop_counting_ended_pods(now)
                quotas = {entry.key: entry.revision for entry in self._quotas.of(namespace)}
                if tally is None or tally.changed or tally.compared != quotas:
                    await self._recount(namespace)

    async def _recount(self, namespace: str) -> dict[str, Entry] | None:
        """Correct the quotas of a namespace and return them; None if one changed meanwhile."""
        tally = await self._tally(namespace)
        # Nothing is awaited from here to the write, so count and quotas are of one revision.
        found = {entry.key: entry for entry in self._quotas.of(namespace)}
        tally.compared = {key: entry.revision for key, entry in found.items()}
        corrected = [
            (entry, value)
            for entry in found.values()
            if (value := _corrected(entry, tally)) is not None
        ]
        writes = [_replacement(entry, value) for entry, value in corrected]
        tally.changed = True  # until all is written: the caller may give up
        results = await self._store.write_many(writes) if writes else []
        for (entry, value), result in zip(corrected, results, strict=True):
            if isinstance(result, StoreError):
                raise errors.of_store(result)
            if not result.succeeded:
                await self._reflector.wait_until_fresh()
                return None
            found[entry.key] = entry.changed(value, result.revision)
            tally.compared[entry.key] = result.revision
        tally.changed = False
        return found

    async def _tally(self, namespace: str) -> Tally:
        """Return the count of a namespace as of the cache's revision."""
        await self._catch_up()
        while (tally := self._tallies.get(namespace)) is None:
            tally = Tally()
            prefix = f"{namespace}/"
            entries = [
                entry
                for kind in _COUNTED
                for key, entry in self._cache.objects(kind).items()
                if key.startswith(prefix)
            ]
            for number, entry in enumerate(entries):
                tally.set(entry.kind, entry.key, entry, self._now())
                if number % _TURN == _TURN - 1:
                    await asyncio.sleep(0)
            # Apply the changes since then if the cache still has them; else count in full again.
            self._tallies[namespace] = tally
            await self._catch_up()
        return tally

    async def _catch_up(self) -> None:
        """Apply the changes since the last call to the tallies.

        Nothing is awaited after the last change, so that on return the tallies are as of the
        cache's revision.
        """
        if not self._tallies:
            self._position = self._cache.ring.end
            return
        while True:
            try:
                changes = self._cache.ring.changes_from(self._position, _TURN)
            except ExpiredError:
                self._tallies.clear()
                self._position = self._cache.ring.end
                return
            if not changes:
                return
            now = self._now()
            for change in changes:
                self._take(change, now)
            self._position += len(changes)
            if self._position < self._cache.ring.end:
                await asyncio.sleep(0)

    def _take(self, change: Change, now: float) -> None:
        tally = self._tallies.get(change.key.partition("/")[0])
        if tally is not None and is_counted(change.kind):
            tally.set(change.kind, change.key, change.new, now)


def _replacement(entry: Entry, value: bytes) -> Write:
    key = object_key(entry.kind, entry.key)
    return Write((Compare.mod_revision_is(key, entry.revision),), (Put(key, value),))


def _corrected(entry: Entry, tally: Tally) -> bytes | None:
    """Serialize the quota with the total usage; None if it already has it."""
    quota = entry.decode()
    assert isinstance(quota, ResourceQuota)
    return quota.SerializeToString() if set_used(quota, tally.total(quota)) else None
