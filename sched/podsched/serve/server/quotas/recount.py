"""Keeps ``status.used`` of quotas at what their namespaces have.

A create is charged in its own transaction (``charging``), so that at any revision the objects and
what quotas say of them agree, but for what nobody charges: deletions, pods that end, and creates
through a server that had not seen a new quota yet. Those are found by counting. The count of a
namespace and its quotas are both taken from the watch cache at one revision; the corrected status
is written only if the quota is still the one of that revision. Otherwise it has been charged in
the meantime, and is corrected after the next look. Every server does this; one of them is first.

A namespace is counted in full when its first quota appears, and by its changes from then on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from fractions import Fraction

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS, Kind
from podsched.api.objects import Pod, ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Usage, ends_at, is_counted, set_used, usage_of
from podsched.api.quota_scopes import PodScopes, expressions_of, is_in_scope, scopes_of
from podsched.api.resources import Amounts
from podsched.serve.server import errors
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.entries import Entry
from podsched.serve.server.quotas.namespaces import QuotaIndex
from podsched.serve.server.watchcache import Change, ExpiredError, WatchCache
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Compare, Put, Store, Write
from podsched.telemetry.logs import get_logger

_log = get_logger("quotas")

#: Seconds from a change to the recount, at least and in addition: servers should not all write.
_PAUSE, _SPREAD = 0.1, 0.1
_AFTER_FAULT = 1.0
#: Seconds between two looks for pods that should be gone.
_LOOK_EVERY = 30.0
#: Objects counted, or changes looked at, before others get a turn.
_TURN = 100
#: How often a status is tried to be corrected while creates change it.
_ATTEMPTS = 4

#: Different usages that are shared.
_MOST_SHARED = 1000

_COUNTED = tuple(kind for kind in KINDS.values() if is_counted(kind))
_POD = KINDS["Pod"]
#: Kinds of which the objects use more than their number.
_LOOKED_INTO = (_POD, KINDS["PersistentVolumeClaim"])


class Tally:
    """What the objects of one namespace use together."""

    def __init__(self) -> None:
        #: Of pods in the same scopes, and under None of all other objects.
        self._totals: dict[PodScopes | None, Amounts] = {}
        #: Whether the total has changed since it was compared with the quotas.
        self.changed = True
        self._usages: dict[tuple[str, str], Usage] = {}
        self._pods_that_end: dict[tuple[str, str], Entry] = {}
        self._same: dict[tuple[object, ...], Usage] = {}

    def total(self, quota: ResourceQuota) -> Amounts:
        """Return what the objects that a quota is about use together."""
        expressions = expressions_of(quota.spec)
        found: Amounts = {}
        for scopes, amounts in self._totals.items():
            if is_in_scope(expressions, scopes):
                for resource, amount in amounts.items():
                    found[resource] = found.get(resource, Fraction(0)) + amount
        return found

    def set(self, kind: Kind, key: str, entry: Entry | None, now: float) -> None:
        """Take in an object as it is now; None: it is gone."""
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

    def end_pods(self, now: float) -> None:
        """Take in that pods should have been gone by now."""
        for (_, key), entry in list(self._pods_that_end.items()):
            self.set(_POD, key, entry, now)

    def _usage(
        self, kind: Kind, entry: Entry | None, name: tuple[str, str], now: float
    ) -> Usage | None:
        self._pods_that_end.pop(name, None)
        if entry is None:
            return None
        message = entry.decode() if kind in _LOOKED_INTO else kind.new()
        if isinstance(message, Pod) and now <= ends_at(message) < float("inf"):
            self._pods_that_end[name] = entry
        try:
            usage = Usage(usage_of(kind, message, now), scopes_of(message))
        except QuantityError:  # nothing that this server would have stored
            usage = Usage(usage_of(kind, kind.new(), now), scopes_of(kind.new()))
        # Most pods use the same: they share one dictionary.
        if len(self._same) >= _MOST_SHARED:
            self._same.clear()
        return self._same.setdefault((frozenset(usage.amounts.items()), usage.scopes), usage)


class UsageRecounter:
    """Corrects the status of quotas.

    now: Unix time in seconds.
    """

    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        reflector: CacheReflector,
        quotas: QuotaIndex,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._cache = cache
        self._reflector = reflector
        self._quotas = quotas
        self._now = now
        self._tallies: dict[str, Tally] = {}
        self._compared: dict[str, int] = {}
        self._position = 0
        #: Held by whoever moves the position: one at a time.
        self._counting = asyncio.Lock()

    async def run(self) -> None:
        """Recount after changes until cancelled."""
        while True:
            seen = self._cache.revision
            try:
                async with self._counting:
                    await self._recount_all()
            except StoreError as error:
                _log.info("Could not correct quotas", error=str(error))
                await asyncio.sleep(_AFTER_FAULT)
                continue
            if self._cache.revision == seen:
                await asyncio.wait([self._cache.next_change()], timeout=_LOOK_EVERY)
            await asyncio.sleep(_PAUSE + _SPREAD * random.random())

    async def settle(self, namespace: str) -> dict[str, Entry]:
        """Return the quotas of a namespace by key, after everything completed before is counted.

        Raises ApiError.
        """
        try:
            await self._reflector.wait_until_fresh()
            async with self._counting:
                for _ in range(_ATTEMPTS):
                    found = await self._recount(namespace)
                    if found is not None:
                        return found
        except StoreError as error:
            raise errors.of_store(error) from error
        return {entry.key: entry for entry in self._quotas.of(namespace)}

    async def _recount_all(self) -> None:
        if not self._quotas:
            self._tallies.clear()
            self._compared.clear()
            return
        await self._catch_up()
        namespaces = list(self._quotas.namespaces())
        for gone in self._tallies.keys() - set(namespaces):
            del self._tallies[gone]
        now = self._now()
        for namespace in namespaces:
            tally = self._tallies.get(namespace)
            if tally is not None:
                tally.end_pods(now)
            if tally is None or tally.changed or self._is_new(namespace):
                await self._recount(namespace)

    def _is_new(self, namespace: str) -> bool:
        return any(self._compared.get(e.key) != e.revision for e in self._quotas.of(namespace))

    async def _recount(self, namespace: str) -> dict[str, Entry] | None:
        """Correct the quotas of a namespace and return them; None if one was changed meanwhile."""
        tally = await self._tally(namespace)
        # From here to the write nothing is awaited: count and quotas are of one revision.
        tally.changed = False
        found = {entry.key: entry for entry in self._quotas.of(namespace)}
        self._compared.update((key, entry.revision) for key, entry in found.items())
        corrected = [
            (entry, value)
            for entry in found.values()
            if (value := _corrected(entry, tally)) is not None
        ]
        writes = [_replacement(entry, value) for entry, value in corrected]
        results = await self._store.write_many(writes) if writes else []
        for (entry, value), result in zip(corrected, results, strict=True):
            if isinstance(result, StoreError) or not result.succeeded:
                tally.changed = True
                if isinstance(result, StoreError):
                    raise result
                await self._reflector.wait_until_fresh()
                return None
            found[entry.key] = Entry(entry.kind, entry.key, value, result.revision, entry.created)
            self._compared[entry.key] = result.revision
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
            # What has changed since, if that is still known; else it starts anew.
            self._tallies[namespace] = tally
            await self._catch_up()
        return tally

    async def _catch_up(self) -> None:
        """Take in the changes since the last time; the last step awaits nothing."""
        if not self._tallies:
            self._position = self._cache.end
            return
        while True:
            try:
                changes = self._cache.changes_from(self._position, _TURN)
            except ExpiredError:
                self._tallies.clear()
                self._position = self._cache.end
                return
            if not changes:
                return
            now = self._now()
            for change in changes:
                self._take(change, now)
            self._position += len(changes)
            if self._position < self._cache.end:
                await asyncio.sleep(0)

    def _take(self, change: Change, now: float) -> None:
        shown = change.new or change.old
        assert shown is not None
        tally = self._tallies.get(shown.key.partition("/")[0])
        if tally is not None and is_counted(change.kind):
            tally.set(change.kind, shown.key, change.new, now)


def _replacement(entry: Entry, value: bytes) -> Write:
    key = object_key(entry.kind, entry.key)
    return Write((Compare.mod_revision_is(key, entry.revision),), (Put(key, value),))


def _corrected(entry: Entry, tally: Tally) -> bytes | None:
    """Return the quota with what is used in total; None if it says so already."""
    quota = entry.decode()
    assert isinstance(quota, ResourceQuota)
    return quota.SerializeToString() if set_used(quota, tally.total(quota)) else None
