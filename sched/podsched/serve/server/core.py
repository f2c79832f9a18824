"""Wires the parts of an API server together on a store, without its transports."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

from podsched.api.reasons import StatusReason
from podsched.lib.backoff import Backoff
from podsched.serve.server.access.authorizer import Authorizer
from podsched.serve.server.access.reconciliation import role_extensions
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.bind_guard import BindGuard
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.compaction import Compactor
from podsched.serve.server.creation import Creator, ensure_built_in, random_uid
from podsched.serve.server.deleter import Deleter
from podsched.serve.server.errors import ApiError
from podsched.serve.server.etcd_monitor import EtcdMonitor
from podsched.serve.server.expiry import EventExpiry
from podsched.serve.server.listing import Lister
from podsched.serve.server.namespaces import Namespaces
from podsched.serve.server.new_objects import NewObjects
from podsched.serve.server.pods import PodOperations
from podsched.serve.server.quotas.charging import QuotaCharging
from podsched.serve.server.quotas.growth import GrowthCharging
from podsched.serve.server.quotas.recount import QuotaIndex, UsageRecounter
from podsched.serve.server.registry import Registry
from podsched.serve.server.rewriting import Rewriter
from podsched.serve.server.service_addresses import ServiceAddresses
from podsched.serve.server.settings import ServerSettings
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.submission import PodSubmission
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.server.watching import Watcher
from podsched.serve.server.writes import GuardedWrites
from podsched.serve.store.protocol import Store

#: Seconds between attempts to create the built-in objects.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class ServerCore:
    """The parts that answer requests. The caller opens and closes the store.

    now: Unix time in seconds; new_uid: a random uid.
    """

    def __init__(
        self,
        settings: ServerSettings,
        store: Store,
        *,
        now: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = random_uid,
    ) -> None:
        self.cache = WatchCache(
            max_events=settings.watch_cache_events, max_bytes=settings.watch_cache_bytes
        )
        guard = BindGuard(store)
        self.reflector = CacheReflector(store, self.cache, guard.forget)
        self.storage = storage = ObjectStorage(store, self.cache)
        new_objects = NewObjects(store, self.cache, self.reflector)
        sources = AdmissionSources(
            self.cache,
            self.reflector,
            mount_tokens=bool(settings.service_accounts.token_key),
            pod_group_claims=settings.pod_group_claims,
        )
        self.namespaces = Namespaces(
            new_objects,
            self.cache,
            self.reflector,
            required=settings.require_namespaces,
            now=now,
            new_uid=new_uid,
        )
        expiry = EventExpiry(store, self.cache, settings)
        self.lister = Lister(store, self.cache, self.reflector)
        self.watcher = Watcher(
            self.cache, self.reflector, settings.bookmark_seconds, settings.max_connections
        )
        quotas = QuotaIndex(self.cache)
        self.quota_recounter = UsageRecounter(store, self.cache, self.reflector, quotas, now=now)
        charging = QuotaCharging(new_objects, quotas, self.quota_recounter, now=now)
        addresses = ServiceAddresses(self.cache, settings.service_cluster_ip_range)
        self.creator = Creator(
            sources, self.namespaces, expiry, charging, addresses, now=now, new_uid=new_uid
        )
        self.submission = PodSubmission(self.creator)
        self.compactor = Compactor(store, settings.compaction_interval_seconds)
        self.etcd = EtcdMonitor(store, settings.etcd_quota_bytes)
        growth = GrowthCharging(quotas, self.quota_recounter, now=now)
        writes = GuardedWrites(storage, sources, addresses, expiry, guard, self.cache)
        self.registry = Registry(storage, sources, growth, writes, now=now)
        self.rewriter = Rewriter(sources, growth, writes, now=now)
        self.deleter = Deleter(storage, self.lister, self.namespaces, writes, now=now)
        self.pods = PodOperations(storage, self.cache, self.reflector, guard, now=now)
        self._has_built_in = False
        self.authorizer = Authorizer(self.cache, lambda: self._has_built_in)
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow the store; return when all requests can be answered.

        Raises the error if following the store failed, ApiError if the built-in objects cannot be
        created.
        """
        self._following = asyncio.create_task(self.reflector.run(), name="follow etcd")
        ready = asyncio.create_task(self.reflector.ready.wait(), name="await cache")
        await asyncio.wait([ready, self._following], return_when=asyncio.FIRST_COMPLETED)
        if not self.reflector.ready.is_set():
            ready.cancel()
            await self._following
        await self._ensure_built_in()

    async def wait(self) -> None:
        """Wait until stopped; raise the error if following the store failed."""
        if self._following is not None:
            await asyncio.shield(self._following)

    async def stop(self) -> None:
        """Stop following the store."""
        if self._following is not None:
            self._following.cancel()
            # ``wait`` has raised any earlier error.
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._following

    async def _ensure_built_in(self) -> None:
        """Create missing built-in objects and roles; retry while the store is unavailable."""
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        while True:
            try:
                await ensure_built_in(self.creator, self.cache)
                await self.storage.mutate([*role_extensions(self.cache)], None)
                await self.reflector.wait_until_fresh()
                self._has_built_in = True
                return
            except ApiError as error:
                if error.reason not in (StatusReason.UNAVAILABLE, StatusReason.OUTCOME_UNKNOWN):
                    raise
                await asyncio.sleep(backoff.next_delay())
