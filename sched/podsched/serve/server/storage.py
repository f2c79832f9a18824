"""Changes objects in etcd with conditional writes (compare and swap).

A changed object is written if the stored one still has the version from which the change was
computed (optimistic concurrency). ``new_objects`` creates objects. Guarantees:

- A change is computed from exactly the version that it replaces.
- A fence is checked in the same etcd transaction as the write that it guards.
- An error about an object's state ("already bound") is based on the current version, never on a
  lagging cache.
- The items of a batch succeed or fail independently, but share etcd transactions.

A change is first computed from the cached version, which saves a read. If that version is stale,
etcd's answer to the failed compare contains the current one, and the change is computed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from podsched.api.etcd_keys import local_key, name_in, object_key
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.turns import Work, writes_at_once, writing
from podsched.serve.server.mutations import (
    Mutation,
    New,
    Outcome,
    Step,
    is_no_lock,
    only_entry,
    refusal,
    still_leads,
)
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.errors import MaybeApplied, StoreError, TooLarge
from podsched.serve.store.protocol import (
    Compare,
    Delete,
    KeyValue,
    Put,
    Store,
    Write,
    WriteOp,
    WriteOutcome,
)
from podsched.telemetry.tracing import SpanName, current_span
from podsched.v1.api_pb2 import Fence

# Timeout in seconds of the read that checks whether a write was applied, after its answer was lost.
_CHECK_SECONDS = 2.0
# Seconds that a write may take before its outcome is reported as unknown: longer than the store's
# own retries, so that this is rare.
_WRITE_TIMEOUT = 30.0
# Max times that a change is computed for one object which others change concurrently, or whose
# quota others charge. Each attempt loses to a write that succeeded, and ``sched apply`` makes 32
# calls at once, so a longer series means more contention than a client can cause.
_MAX_ROUNDS = 64

_Item = TypeVar("_Item", New, Mutation)
_T = TypeVar("_T")


class _Attempt(NamedTuple):
    """One attempt to change an object of a batch.

    item: index in the batch. base: the version to change, None if the cache has none. current:
    whether etcd returned ``base``; a version from the cache may be stale. step: the write, None if
    this attempt only reads the current version.
    """

    item: int
    base: Entry | None
    current: bool
    step: Step | None = None


class ObjectStorage:
    """Reads and changes objects in etcd. ``get`` always reads etcd; changes try the cache first."""

    def __init__(self, store: Store, cache: WatchCache) -> None:
        self._store = store
        self._cache = cache

    async def get(self, kind: Kind, key: str) -> Entry:
        """Return the current object. Raises ApiError NOT_FOUND."""
        kv = await stored(self._store, kind, key)
        if kv is None:
            raise errors.not_found(kind, name_in(key))
        return Entry.at(kind, key, kv)

    async def message(self, kind: Kind, namespace: str, name: str) -> AnyObject:
        """Return an object from etcd, not from the cache. Raises ApiError."""
        entry = await self.get(kind, local_key(kind, namespace, name))
        if not entry.is_readable():
            raise errors.unreadable(kind, name)
        return entry.message

    async def mutate_one(
        self, mutation: Mutation, fence: Fence | None, *, dry_run: bool = False
    ) -> Entry:
        """Change one object. Raises ApiError."""
        return only_entry(await self.mutate([mutation], fence, dry_run=dry_run))

    async def mutate(
        self, mutations: Sequence[Mutation], fence: Fence | None, *, dry_run: bool = False
    ) -> list[Outcome]:
        """Change objects, each independently; return each changed object or its error.

        dry_run: write nothing; the returned objects have their old revision.
        """
        if dry_run:
            return [await self._dry_run(mutation, fence) for mutation in mutations]
        return await in_parts(mutations, lambda part: self._mutate(part, fence))

    async def mutate_planned(
        self, planned: Sequence[Mutation | ApiError], fence: Fence | None, *, dry_run: bool
    ) -> list[Outcome]:
        """Change what is not refused already; return each object or its error."""
        mutations = [plan for plan in planned if isinstance(plan, Mutation)]
        done = iter(await self.mutate(mutations, fence, dry_run=dry_run))
        return [next(done) if isinstance(plan, Mutation) else plan for plan in planned]

    async def _dry_run(self, mutation: Mutation, fence: Fence | None) -> Outcome:
        """Return the outcome of a change of the current object, without writing it."""
        try:
            current = {
                compare.key: (await self._store.get(compare.key)).kv
                for compare in (*still_leads(fence), *is_no_lock(mutation))
            }
            entry = await self.get(mutation.kind, mutation.key)
            if (refused := refusal(mutation, fence, current)) is not None:
                return refused
            step = mutation.change(entry)
        except StoreError as error:
            return errors.of_store(error)
        except ApiError as error:
            return error
        if step is None or step.value is None:
            return entry
        return entry.changed(step.value)

    async def _mutate(self, mutations: Sequence[Mutation], fence: Fence | None) -> list[Outcome]:
        """Change objects in rounds: each round writes all items that have no outcome yet.

        An item needs another round if its base was stale or not in the cache. Items of the same
        object or quota would fail each other's writes, so the later ones are changed one by one
        afterwards.
        """
        outcomes: list[Outcome | None] = [None] * len(mutations)
        later: list[int] = []
        pending = [
            _Attempt(index, self._cache.get(m.kind, m.key), False)
            for index, m in enumerate(mutations)
        ]
        for _ in range(_MAX_ROUNDS):
            tries = await self._compute_steps(pending, mutations, outcomes)
            if not tries:
                break
            sent, writes = _without_conflicts(tries, mutations, still_leads(fence), later)
            results = await write_all(self._store, writes)
            judged = (
                self._outcome_of(attempt, mutations[attempt.item], result, fence)
                for attempt, result in zip(sent, results, strict=True)
            )
            pending = []
            for attempt, found in zip(sent, await judged_all(results, judged), strict=True):
                if isinstance(found, _Attempt):
                    pending.append(found)
                else:
                    outcomes[attempt.item] = found
        for item in sorted(later):
            (outcomes[item],) = await self._mutate([mutations[item]], fence)
        return [
            outcome or errors.conflict(m.kind, name_in(m.key))
            for outcome, m in zip(outcomes, mutations, strict=True)
        ]

    async def _compute_steps(
        self,
        pending: Iterable[_Attempt],
        mutations: Sequence[Mutation],
        outcomes: list[Outcome | None],
    ) -> list[_Attempt]:
        """Return the attempts with their steps; put outcomes already known in ``outcomes``.

        This yields to other calls, and objects may change meanwhile. That is safe, because the
        write compares their versions.
        """
        tries: list[_Attempt] = []
        work = Work()
        for waiting in pending:
            mutation = mutations[waiting.item]
            attempt = _compute_step(waiting, mutation, outcomes)
            if attempt is not None:
                tries.append(attempt)
                if attempt.step is not None and attempt.step.value is not None:
                    # Before the write, because the watch may deliver it before the answer comes.
                    self._cache.written.note(mutation.kind, mutation.key, attempt.step.value)
            if work.turn_is_over:
                await work.give_way()
        work.end()
        return tries

    async def change_from(
        self, base: Entry, mutation: Mutation, fence: Fence | None
    ) -> Entry | None:
        """Change one object if it is still at version ``base``; return None if it has changed.

        For changes computed from several objects, which the caller must then read again: ``mutate``
        would repeat the change with the other objects as they were. Raises ApiError.
        """
        attempt = _Attempt(0, base, True, mutation.change(base))
        if attempt.step is None:
            return base
        write = _write_of(attempt, mutation, still_leads(fence))
        (result,) = await write_all(self._store, [write])
        outcome = await self._outcome_of(attempt, mutation, result, fence)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome if isinstance(outcome, Entry) else None

    async def _outcome_of(
        self, attempt: _Attempt, mutation: Mutation, result: WriteOutcome, fence: Fence | None
    ) -> Outcome | _Attempt:
        """Return the outcome of an attempt, or the next attempt with the current version.

        Reasons for a failed compare are checked in this order: the fence, the schedulers' lock, the
        object itself, and then the mutation's further conditions.
        """
        kind, key, step = mutation.kind, mutation.key, attempt.step
        if isinstance(result, StoreError):
            if step is None:  # a read, so its outcome does not matter
                return errors.unavailable(str(result))
            return await after_fault(self._store, kind, key, step.value, result, attempt.base)
        if result.succeeded:
            # A mere read compares that the object is absent, so success means that it is.
            if step is None or attempt.base is None:
                return errors.not_found(kind, name_in(key))
            value = attempt.base.value if step.value is None else step.value
            return attempt.base.changed(value, result.revision)
        if (lost := refusal(mutation, fence, result.current)) is not None:
            return lost
        kv = result.current.get(object_key(kind, key))
        if kv is None:
            return errors.not_found(kind, name_in(key))
        # A mere read has not compared its base, so nothing can be concluded from it.
        base = attempt.base if step is not None else None
        if mutation.refusal is not None and base is not None and base.revision == kv.mod_revision:
            refused = mutation.refusal(result.current)
            if refused is not None:
                return refused
        return _Attempt(attempt.item, Entry.at(kind, key, kv), True)


def _compute_step(
    attempt: _Attempt, mutation: Mutation, outcomes: list[Outcome | None]
) -> _Attempt | None:
    """Return an attempt with its step, or None after putting a known outcome in ``outcomes``.

    An error or "no change" is final only for a current version. For a cached one, the attempt only
    reads the current version.
    """
    base = attempt.base
    if base is None:
        return attempt
    try:
        step = mutation.change(base)
    except ApiError as error:
        if attempt.current:
            outcomes[attempt.item] = error
            return None
        return attempt._replace(step=None)
    if step is None and attempt.current:
        outcomes[attempt.item] = base
        return None
    return attempt._replace(step=step)


async def stored(store: Store, kind: Kind, key: str) -> KeyValue | None:
    """Return what is stored of an object, None if there is nothing. Raises ApiError."""
    try:
        return (await store.get(object_key(kind, key))).kv
    except StoreError as error:
        raise errors.of_store(error) from error


async def in_parts(
    items: Sequence[_Item], write: Callable[[Sequence[_Item]], Awaitable[list[Outcome]]]
) -> list[Outcome]:
    """Write a batch, in parts that are as large as the caller's flow may write at once."""
    size = writes_at_once(len(items))
    outcomes: list[Outcome] = []
    for start in range(0, len(items), size or 1):
        part = items[start : start + size]
        async with writing(len(part)):
            outcomes += await write(part)
    return outcomes


async def write_all(store: Store, writes: Sequence[Write]) -> list[WriteOutcome]:
    """Send writes to the store; return the result or StoreError of each, and never raise it."""
    try:
        async with asyncio.timeout(_WRITE_TIMEOUT):
            with current_span().start_child(SpanName.ETCD):
                return await store.write_many(writes)
    except TimeoutError:
        return [MaybeApplied("the store did not answer in time")] * len(writes)
    except StoreError as error:
        return [error] * len(writes)


async def judged_all(
    results: Sequence[WriteOutcome], judged: Iterable[Coroutine[Any, Any, _T]]
) -> list[_T]:
    """Return the outcomes of writes, of which those that failed may be read: then all at once."""
    if any(isinstance(result, StoreError) for result in results):
        return await asyncio.gather(*judged)
    return [await outcome for outcome in judged]


async def after_fault(
    store: Store,
    kind: Kind,
    key: str,
    value: bytes | None,
    error: StoreError,
    base: Entry | None = None,
) -> Outcome:
    """Return the outcome of a write that failed, reading the object if the outcome is unknown.

    If the stored object equals the one written, the write was applied. If it differs, the error
    stays unknown: another client may have overwritten it since.
    """
    if error.outcome_unknown:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                kv = (await store.get(object_key(kind, key))).kv
        except (StoreError, TimeoutError):
            return errors.of_store(error)
        if kv is not None and value is not None and kv.value == value:
            return Entry.at(kind, key, kv)
        if kv is None and value is None and base is not None:
            return base
    if isinstance(error, TooLarge):
        return errors.too_large(f"{errors.named(kind, name_in(key))} is too large: {error}")
    return errors.of_store(error)


def _without_conflicts(
    tries: Iterable[_Attempt],
    mutations: Sequence[Mutation],
    leads: tuple[Compare, ...],
    later: list[int],
) -> tuple[list[_Attempt], list[Write]]:
    """Return the attempts that can succeed together, and their writes; add others to ``later``.

    A write that compares a key which an earlier one writes would fail.
    """
    sent: list[_Attempt] = []
    writes: list[Write] = []
    written: set[str] = set()
    for attempt in tries:
        write = _write_of(attempt, mutations[attempt.item], leads)
        if written.isdisjoint(compare.key for compare in write.compares):
            sent.append(attempt)
            writes.append(write)
            written.update(op.key for op in write.ops)
        else:
            later.append(attempt.item)
    return sent, writes


def _write_of(attempt: _Attempt, mutation: Mutation, leads: tuple[Compare, ...]) -> Write:
    """Return the write of an attempt; leads: the compare of the fence."""
    key = object_key(mutation.kind, mutation.key)
    step, base = attempt.step, attempt.base
    if step is None or base is None:
        # Fails if the object exists, and returns it: a read that can be batched with writes.
        return Write((Compare.absent(key), *leads, *is_no_lock(mutation)), ())
    op: WriteOp = Delete(key) if step.value is None else Put(key, step.value, step.lease)
    compares = (
        Compare.mod_revision_is(key, base.revision),
        *leads,
        *is_no_lock(mutation),
        *step.compares,
    )
    return Write(compares, (op, *step.ops))
