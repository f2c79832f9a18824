"""Lists all matching objects at one revision, in pages.

The first page is read from memory, at a revision that includes every write completed before the
request. The continue token has that revision and the last key returned. Later pages show the same
revision: from memory if no object of the kind has changed since, otherwise from etcd's history,
until it is compacted.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from podsched.api.etcd_keys import kind_prefix, object_key
from podsched.serve.server import errors, frames
from podsched.serve.server.access.rights import rights
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.entries import Entry
from podsched.serve.server.fairness.turns import (
    Work,
    end_turn,
    former_state,
    in_turns,
    large_response,
)
from podsched.serve.server.scope import Scope, kind_named, selected_name
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import StoreError
from podsched.serve.store.protocol import Store
from podsched.v1.api_pb2 import ListRequest

_by_key = attrgetter("key")
#: Objects read from etcd in one request.
_ETCD_PAGE = 250
#: Max characters of a continue token; the key in a valid one has at most 400.
_MAX_TOKEN = 4096
#: Objects processed between two checks whether to yield to other calls; each takes up to 4 us if it
#: is decoded for a selector.
_AT_ONCE = 100
#: Cost of reading an object from etcd, in seconds of the event loop.
_READ_SECONDS = 20e-6


class Page(NamedTuple):
    """Part of a list at ``revision``.

    token: the continue token, "" on the last page. remaining: number of objects after this page;
    0 if unknown.
    """

    entries: list[Entry]
    revision: int
    token: str
    remaining: int

    async def encoded(self) -> bytes:
        """Return the serialized ListResponse, yielding to other calls: a page may take 20 ms."""
        items: list[bytes] = []
        async with large_response():
            async for part in in_turns(self.entries, _AT_ONCE):
                items += [frames.list_item(entry.wrapped()) for entry in part]
        return frames.list_response(items, self.revision, self.token, self.remaining)


class Lister:
    """Answers list requests."""

    def __init__(self, store: Store, cache: WatchCache, reflector: CacheReflector) -> None:
        self._store = store
        self._cache = cache
        self._reflector = reflector

    async def page(
        self, request: ListRequest, at_revision: int = 0, *, whole: bool = False, verb: str = "list"
    ) -> Page:
        """Return one page of a list. Raises ApiError, OUT_OF_RANGE if the revision is compacted.

        at_revision: the revision of the list, 0 for the current one. A continue token overrides it.
        whole: only the request limits a page of present objects. One of a former state is read for
        it alone and always has a limit of bytes. verb: the one that must be permitted.
        """
        kind = kind_named(request.kind)
        own = rights()
        own.check(verb, kind, request.namespace, selected_name(request.field_selector))
        if own.node is not None:
            own.node.check_selection(kind, request.field_selector)
        if request.limit < 0:
            raise errors.bad_request("limit must not be negative", "limit")
        scope = Scope(
            [kind.name], request.namespace, request.label_selector, request.field_selector
        )
        token: str = getattr(request, "continue")
        try:
            if token:
                revision, after = _decode_token(token)
                revision = revision or await self._latest(request)
            elif at_revision:
                revision, after = at_revision, ""
            else:
                revision, after = await self._latest(request), ""
            await self._check_reached(revision)
            # The cache has only current objects. They are also those at an earlier revision if
            # none of the kind has changed since.
            if self._cache.last_change(kind) > revision:
                # What is read at once may be _ETCD_PAGE objects of a megabyte.
                async with former_state():
                    return await self._from_etcd(request, scope, revision, after)
        except StoreError as error:
            raise errors.of_store(error) from error
        # No await since the check above, so these are still the objects at ``revision``.
        entries = self._cache.in_order(kind)
        start, end = 0, len(entries)
        if request.namespace and kind.namespaced:
            # Keys are "namespace/name", and "0" is the character after "/".
            start = bisect_left(entries, f"{request.namespace}/", key=_by_key)
            end = bisect_left(entries, f"{request.namespace}0", start, key=_by_key)
        if after:
            start = bisect_right(entries, after, start, end, key=_by_key)
        most = math.inf if whole else frames.MAX_RESPONSE_BYTES
        return await self._from_cache(scope, entries[start:end], revision, request.limit, most)

    async def _check_reached(self, revision: int) -> None:
        """Raise ApiError OUT_OF_RANGE if etcd has not reached a revision.

        A token may be of a server that is ahead of this one, or of a state that etcd has lost
        because it was restored from a backup.
        """
        if self._cache.revision < revision:
            await self._reflector.wait_until_fresh()
        if self._cache.revision < revision:
            raise errors.expired("The store has lost the state of the provided continue parameter")

    async def _latest(self, request: ListRequest) -> int:
        """Return the cache's revision, made fresh first unless the request allows a stale one."""
        if not request.allow_stale or not self._reflector.ready.is_set():
            await self._reflector.wait_until_fresh()
        return self._cache.revision

    async def all(self, scope: Scope) -> list[Entry]:
        """Return all matching objects in their current state."""
        await self._reflector.wait_until_fresh()
        existing = [self._cache.in_order(kind) for kind in scope.kinds.values()]
        found: list[Entry] = []
        for entries in existing:
            async for part in in_turns(entries, _AT_ONCE):
                found += [entry for entry in part if scope.matches(entry)]
        return found

    async def _from_cache(
        self, scope: Scope, entries: Sequence[Entry], revision: int, limit: int, most: float
    ) -> Page:
        found: list[Entry] = []
        size = 0
        work = Work()
        for at, entry in enumerate(entries):
            if scope.matches(entry):
                if _is_full(found, size, limit, most):
                    # As in Kubernetes, the remaining items are counted only without selectors.
                    remaining = 0 if scope.selects else len(entries) - at
                    work.end()
                    return Page(found, revision, _encode_token(revision, found[-1].key), remaining)
                found.append(entry)
                size += len(entry.value)
            if at % _AT_ONCE == _AT_ONCE - 1 and work.turn_is_over:
                await work.give_way()
        work.end()
        return Page(found, revision, "", 0)

    async def _from_etcd(
        self, request: ListRequest, scope: Scope, revision: int, after: str
    ) -> Page:
        found: list[Entry] = []
        size = 0
        async for entry, remaining in self._history(request, scope, revision, after):
            if scope.matches(entry):
                if _is_full(found, size, request.limit, frames.MAX_RESPONSE_BYTES):
                    token = _encode_token(revision, found[-1].key)
                    return Page(found, revision, token, 0 if scope.selects else remaining)
                found.append(entry)
                size += len(entry.value)
        return Page(found, revision, "", 0)

    async def _history(
        self, request: ListRequest, scope: Scope, revision: int, after: str
    ) -> AsyncIterator[tuple[Entry, int]]:
        """Yield the objects after a key, each with the number of objects from it on."""
        kind = next(iter(scope.kinds.values()))
        start_after = object_key(kind, after)
        more = True
        while more:
            page = await self._store.range(
                kind_prefix(kind, request.namespace if kind.namespaced else ""),
                limit=_ETCD_PAGE,
                start_after=start_after,
                revision=revision,
            )
            # Also because the answers to many calls may have come at once.
            await end_turn(_READ_SECONDS * len(page.kvs))
            async for part in in_turns([*enumerate(page.kvs)], _AT_ONCE):
                for at, kv in part:
                    entry = Entry.of(kv)
                    if entry is not None and entry.is_readable():
                        yield entry, page.total - at
            more = page.more and bool(page.kvs)
            if page.kvs:
                start_after = page.kvs[-1].key


def _is_full(found: Sequence[Entry], size: int, limit: int, most: float) -> bool:
    return (limit > 0 and len(found) == limit) or (bool(found) and size > most)


def inconsistent_token(token: str) -> str:
    """Return a token that continues after the same key, on the current state. Raises ApiError."""
    return _encode_token(0, _decode_token(token)[1])


def _encode_token(revision: int, after: str) -> str:
    content = json.dumps({"rv": revision, "start": after}, separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode()


def _decode_token(token: str) -> tuple[int, str]:
    try:
        if len(token) > _MAX_TOKEN:
            raise ValueError("longer than any valid token")
        content = json.loads(base64.urlsafe_b64decode(token.encode()))
        revision, start = content["rv"], content["start"]
        if type(revision) is not int or not 0 <= revision < 2**63 or not isinstance(start, str):
            raise ValueError("not a revision and a key")
        start.encode()
    except (binascii.Error, ValueError, KeyError, TypeError, RecursionError):
        raise errors.bad_request("continue key is not valid", "continue") from None
    return revision, start
