"""Creates objects in namespaces with quotas, and charges them in the same transaction.

    create -> queue of the namespace -> one task takes up to 64 with the same fence
                                        |  within quota: writes objects and quotas conditionally
                                        |  conflict: retries with the current versions
                                        '  exceeds quota: recounts, then refuses

All creates in a namespace change the same quotas and would have to wait for each other, so waiting
ones share a transaction. A refusal is based on a recount after the create arrived (``recount``), so
that earlier deletions free quota for it. Without a quota, objects are created in the ordinary way
at no extra cost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from podsched.api.etcd_keys import name_in
from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject, Pod, ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Balance, Usage, is_counted, missing_requests, set_used, usage_of
from podsched.api.quota_scopes import expressions_of, is_in_scope, scopes_of
from podsched.api.resources import Amounts
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import New, Outcome
from podsched.serve.server.new_objects import NewObjects
from podsched.serve.server.quotas.recount import QUOTA, QuotaIndex, UsageRecounter
from podsched.v1.api_pb2 import Fence

#: Max objects and bytes in a transaction: half of etcd's limits, so that other writes fit in.
_MAX_ITEMS, _MAX_BYTES = 64, 500_000
#: Max quotas of a namespace, which all change in that transaction.
MAX_QUOTAS = 32
#: Max compares or ops of the objects in it: those that etcd permits in a nested transaction, less
#: those of the quotas and the fence.
_MAX_WIDTH = 127 - MAX_QUOTAS - 1
#: Attempts of a transaction while other servers charge the same quotas.
_MAX_ROUNDS = 64


class _Waiting(NamedTuple):
    """A queued creation, and the future of its outcome."""

    new: New
    fence: Fence | None
    outcome: asyncio.Future[Outcome]

    def settle(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class _Plan(NamedTuple):
    """The items that fit, the errors of the others, and the quotas with their new bytes."""

    fitting: list[_Waiting]
    refused: list[tuple[_Waiting, ApiError]]
    changes: list[tuple[Entry, bytes]]


class QuotaCharging:
    """Creates objects and charges them to their namespaces' quotas.

    now: Unix time in seconds.
    """

    def __init__(
        self,
        new_objects: NewObjects,
        quotas: QuotaIndex,
        recounter: UsageRecounter,
        *,
        now: Callable[[], float],
    ) -> None:
        self._new_objects = new_objects
        self._quotas = quotas
        self._recounter = recounter
        self._now = now
        self._queues: dict[str, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def usage_of(self, kind: Kind, message: AnyObject) -> Usage | None:
        """Return a new object's usage; None without a quota. Raises ApiError FORBIDDEN."""
        if not self._quotas or not is_counted(kind):
            return None
        metadata = message.metadata
        quotas = self._quotas.of(metadata.namespace)
        if not quotas:
            return None
        if len(quotas) > MAX_QUOTAS:
            why = f"the namespace has {len(quotas)} quotas, at most {MAX_QUOTAS} are supported"
            raise errors.forbidden(kind, metadata.name, why)
        scopes = scopes_of(message)
        for entry in quotas if isinstance(message, Pod) else ():
            quota = entry.message
            assert isinstance(quota, ResourceQuota)
            assert isinstance(message, Pod)
            missing = missing_requests(quota.spec.hard, message)
            if missing and is_in_scope(expressions_of(quota.spec), scopes):
                why = f"failed quota: {quota.metadata.name}: {missing}"
                raise errors.forbidden(kind, metadata.name, why)
        return Usage(usage_of(kind, message, self._now()), scopes)

    async def check(self, new: New) -> None:
        """Raise ApiError if an object cannot be created now: it exists or exceeds a quota.

        Nothing is charged.
        """
        await self._new_objects.check_free(new)
        if new.usage is not None:
            waiting = _Waiting(new, None, asyncio.get_running_loop().create_future())
            quotas = await self._recounter.recounted(_namespace(new))
            for _, error in _plan(quotas.values(), [waiting]).refused:
                raise error

    async def create(self, items: Sequence[New], fence: Fence | None) -> list[Outcome]:
        """Store new objects, whose keys must be free, each independently."""
        if not self._quotas or all(item.usage is None for item in items):
            return await self._new_objects.create(items, fence)
        queued = {
            index: self._queue(item, fence)
            for index, item in enumerate(items)
            if item.usage is not None
        }
        # The charged ones are queued first, so that both are written at the same time.
        others = [item for item in items if item.usage is None]
        done = iter(await self._new_objects.create(others, fence))
        return [
            await queued[index] if index in queued else next(done) for index in range(len(items))
        ]

    def _queue(self, new: New, fence: Fence | None) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        namespace = _namespace(new)
        queue = self._queues.get(namespace)
        if queue is None:
            queue = self._queues[namespace] = deque()
            # Not part of the caller's task: cancelling one call must not fail others' creates.
            task = asyncio.create_task(self._work(namespace, queue), name=f"charge {namespace}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(_Waiting(new, fence, outcome))
        return outcome

    async def _work(self, namespace: str, queue: deque[_Waiting]) -> None:
        """Process a namespace's queue until it is empty."""
        latest: dict[str, Entry] = {}
        batch: list[_Waiting] = []
        try:
            while queue:
                batch = _take(queue)
                try:
                    latest = await self._create(namespace, batch, latest)
                except Exception as error:
                    for waiting in batch:
                        if not waiting.outcome.done():
                            waiting.outcome.set_exception(error)
        finally:
            # No await since the queue was found empty: what came in between would never be taken.
            del self._queues[namespace]
            for waiting in (*batch, *queue):
                waiting.outcome.cancel()

    async def _create(
        self, namespace: str, batch: list[_Waiting], latest: Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """Create a batch and settle its items; return the quotas afterwards.

        latest: the quotas after the previous batch, which the cache may not have yet.
        """
        quotas = {e.key: _later(e, latest.get(e.key)) for e in self._quotas.of(namespace)}
        recounted = False
        for _ in range(_MAX_ROUNDS):
            plan = _plan(quotas.values(), batch)
            if plan.refused and not recounted:
                try:
                    quotas = await self._recounter.recounted(namespace)
                except ApiError as error:
                    _settle_all(batch, error)
                    return {}
                recounted = True
                continue
            for waiting, refusal in plan.refused:
                waiting.settle(refusal)
            if not plan.fitting:
                return quotas
            batch, different = await self._write(plan)
            for key, entry in different.items():
                if entry is None:
                    del quotas[key]
                else:
                    quotas[key] = entry
            if not batch:
                return quotas
        _settle_all(batch, None)
        return quotas

    async def _write(self, plan: _Plan) -> tuple[list[_Waiting], dict[str, Entry | None]]:
        """Write the items that fit; return items to retry, and the quotas that have changed."""
        news = [waiting.new for waiting in plan.fitting]
        outcomes, different = await self._new_objects.create_and_change(
            news, plan.changes, plan.fitting[0].fence
        )
        again = []
        for waiting, outcome in zip(plan.fitting, outcomes, strict=True):
            if outcome is None:
                again.append(waiting)
            else:
                waiting.settle(outcome)
        # All were written or none, so the first tells for all.
        written = outcomes[0]
        if isinstance(written, Entry):
            for base, value in plan.changes:
                different[base.key] = base.changed(value, written.revision)
        return again, different


def _take(queue: deque[_Waiting]) -> list[_Waiting]:
    """Remove and return the items of the next transaction: one fence, each name once."""
    batch: list[_Waiting] = []
    names: set[tuple[str, str]] = set()
    size = width = 0
    while queue and len(batch) < _MAX_ITEMS:
        waiting = queue[0]
        name = waiting.new.kind.name, waiting.new.key
        size += len(waiting.new.value)
        width += max(len(waiting.new.compares), len(waiting.new.ops))
        if batch and (size > _MAX_BYTES or width > _MAX_WIDTH):
            break
        if batch and (name in names or waiting.fence != batch[0].fence):
            break
        # What has exclusive keys is alone: those of two might be the same, and there may be many.
        if batch and (waiting.new.exclusive or batch[0].new.exclusive):
            break
        names.add(name)
        batch.append(queue.popleft())
    return batch


def _plan(quotas: Collection[Entry], items: Sequence[_Waiting]) -> _Plan:
    """Decide in order which items fit, each with the quota left by those before it."""
    plan = _Plan([], [], [])
    balances: list[tuple[Entry, Balance]] = []
    unusable = ""
    for entry in quotas:
        quota = entry.message
        assert isinstance(quota, ResourceQuota)
        try:
            balances.append((entry, Balance(quota)))
        except QuantityError as error:  # not written by an API server
            unusable = unusable_because(quota, error)
    charged: set[str] = set()
    present = {entry.key for entry in quotas}
    for waiting in items:
        new = waiting.new
        if new.kind is QUOTA and new.key in present:
            # To write it twice would fail the whole transaction.
            plan.refused.append((waiting, errors.already_exists(QUOTA, name_in(new.key))))
            continue
        usage = new.usage or Usage({})
        concerned = [(entry, each) for entry, each in balances if each.concerns(usage.scopes)]
        why = unusable or excess_of([balance for _, balance in concerned], usage.amounts)
        if why:
            refused = errors.forbidden(new.kind, name_in(new.key), why)
            plan.refused.append((waiting, refused))
            continue
        plan.fitting.append(waiting)
        for entry, balance in concerned:
            if balance.charge(usage.amounts):
                charged.add(entry.key)
    for entry, balance in balances:
        if entry.key in charged:
            plan.changes.append((entry, charged_value(entry, balance)))
    return plan


def unusable_because(quota: ResourceQuota, error: QuantityError) -> str:
    """Return why nothing can be charged to a quota with invalid amounts."""
    return f"quota {quota.metadata.name} cannot be used: {error}"


def charged_value(entry: Entry, balance: Balance) -> bytes:
    """Serialize a quota with the usage of its balance."""
    quota = entry.decode()
    assert isinstance(quota, ResourceQuota)
    set_used(quota, balance.used)
    return quota.SerializeToString()


def excess_of(balances: Iterable[Balance], usage: Amounts) -> str:
    """Return why a usage exceeds one of the quotas; "" if it does not."""
    for balance in balances:
        if not balance.is_known:
            names = ", ".join(sorted(balance.hard))
            return f"status unknown for quota: {balance.name}, resources: {names}"
        if why := balance.excess(usage):
            return why
    return ""


def _settle_all(batch: Iterable[_Waiting], error: ApiError | None) -> None:
    for waiting in batch:
        new = waiting.new
        waiting.settle(error or errors.conflict(new.kind, name_in(new.key)))


def _later(cached: Entry, known: Entry | None) -> Entry:
    """Return the newer of two versions of a quota."""
    return known if known is not None and known.revision > cached.revision else cached


def _namespace(new: New) -> str:
    return new.key.partition("/")[0]
