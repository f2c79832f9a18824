"""Creates in namespaces with quotas: the objects and what they use are written in one transaction.

    create -> queue of the namespace -> one task takes up to 64 of one fence
                                        |  fits: objects and quotas, if nothing has changed
                                        |  something has changed: again, from what it is now
                                        '  too much: counted anew, then refused

All creates of a namespace change the same quotas, so that one would have to wait for the other;
those that wait share a transaction instead. A refusal is decided on quotas that were counted anew
after the create had come in (``recount``): what was deleted before it makes room for it. Where no
quota is, objects take the ordinary way and cost nothing more.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from podsched.api.kinds import Kind
from podsched.api.objects import AnyObject, Pod, ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Balance, Usage, is_counted, missing_requests, set_used, usage_of
from podsched.api.quota_scopes import expressions_of, is_in_scope, scopes_of
from podsched.api.resources import Amounts
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.quotas.namespaces import QuotaIndex
from podsched.serve.server.quotas.recount import UsageRecounter
from podsched.serve.server.storage import New, ObjectStorage, Outcome
from podsched.v1.api_pb2 import Fence

#: Objects and their bytes in one transaction: half of what etcd takes, so that other writes fit in.
_MOST_ITEMS, _MOST_BYTES = 64, 500_000
#: Quotas of one namespace, which all change in that transaction.
MAX_QUOTAS = 32
#: How often a transaction is tried anew because another server has charged the same quotas.
_MAX_ROUNDS = 64


class _Waiting(NamedTuple):
    new: New
    fence: Fence | None
    outcome: asyncio.Future[Outcome]

    def settle(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class _Plan(NamedTuple):
    """What becomes of items: those that fit, why others do not, and the quotas afterwards."""

    fitting: list[_Waiting]
    refused: list[tuple[_Waiting, ApiError]]
    changes: list[tuple[Entry, bytes]]


class QuotaCharging:
    """Creates objects, charged to quotas where there are any.

    now: Unix time in seconds.
    """

    def __init__(
        self,
        storage: ObjectStorage,
        quotas: QuotaIndex,
        recounter: UsageRecounter,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._quotas = quotas
        self._recounter = recounter
        self._now = now
        self._queues: dict[str, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def usage_of(self, kind: Kind, message: AnyObject) -> Usage | None:
        """Return what a new object uses; None where no quota is. Raises ApiError FORBIDDEN."""
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
        """Raise ApiError if an object cannot be created now: it exists, or is too much for a quota.

        Nothing is charged.
        """
        await self._storage.check_free(new)
        if new.usage is not None:
            waiting = _Waiting(new, None, asyncio.get_running_loop().create_future())
            quotas = await self._recounter.settle(_namespace(new))
            for _, error in _plan(quotas.values(), [waiting]).refused:
                raise error

    async def create(self, items: Sequence[New], fence: Fence | None) -> list[Outcome]:
        """Store objects whose keys must be free, each by itself."""
        if not self._quotas or all(item.usage is None for item in items):
            return await self._storage.create(items, fence)
        queued = {
            index: self._queue(item, fence)
            for index, item in enumerate(items)
            if item.usage is not None
        }
        others = [item for item in items if item.usage is None]
        done = iter(await self._storage.create(others, fence))
        return [
            await queued[index] if index in queued else next(done) for index in range(len(items))
        ]

    def _queue(self, new: New, fence: Fence | None) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        namespace = _namespace(new)
        queue = self._queues.get(namespace)
        if queue is None:
            queue = self._queues[namespace] = deque()
            # Not the caller's: others' creates must not end with a call that is cancelled.
            task = asyncio.create_task(self._work(namespace, queue), name=f"charge {namespace}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        queue.append(_Waiting(new, fence, outcome))
        return outcome

    async def _work(self, namespace: str, queue: deque[_Waiting]) -> None:
        """Create what waits for a namespace, until nothing does."""
        latest: dict[str, Entry] = {}
        try:
            while queue:
                batch = _take(queue)
                try:
                    latest = await self._create(namespace, batch, latest)
                except BaseException as error:
                    for waiting in batch:
                        if not waiting.outcome.done():
                            waiting.outcome.set_exception(error)
                    if not isinstance(error, Exception):
                        raise
        finally:
            del self._queues[namespace]
            for waiting in queue:
                waiting.outcome.cancel()

    async def _create(
        self, namespace: str, batch: list[_Waiting], latest: Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """Give each of a batch its outcome; return the quotas as they are then.

        latest: as they were after the batch before it, which the cache may not have seen yet.
        """
        quotas = {e.key: _later(e, latest.get(e.key)) for e in self._quotas.of(namespace)}
        settled = False
        for _ in range(_MAX_ROUNDS):
            plan = _plan(quotas.values(), batch)
            if plan.refused and not settled:
                try:
                    quotas = await self._recounter.settle(namespace)
                except ApiError as error:
                    _settle_all(batch, error)
                    return {}
                settled = True
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
        """Write what fits; return what is to be tried again, and quotas that are different now."""
        news = [waiting.new for waiting in plan.fitting]
        outcomes, different = await self._storage.create_with(
            news, plan.changes, plan.fitting[0].fence
        )
        again = []
        for waiting, outcome in zip(plan.fitting, outcomes, strict=True):
            if outcome is None:
                again.append(waiting)
            else:
                waiting.settle(outcome)
        written = outcomes[0]
        if isinstance(written, Entry):
            for base, value in plan.changes:
                different[base.key] = Entry(
                    base.kind, base.key, value, written.revision, base.created
                )
        return again, different


def _take(queue: deque[_Waiting]) -> list[_Waiting]:
    """Remove and return what goes into one transaction: of one fence, each name once."""
    batch: list[_Waiting] = []
    names: set[tuple[str, str]] = set()
    size = 0
    while queue and len(batch) < _MOST_ITEMS:
        waiting = queue[0]
        name = waiting.new.kind.name, waiting.new.key
        size += len(waiting.new.value)
        if batch and (size > _MOST_BYTES or name in names or waiting.fence != batch[0].fence):
            break
        names.add(name)
        batch.append(queue.popleft())
    return batch


def _plan(quotas: Iterable[Entry], items: Sequence[_Waiting]) -> _Plan:
    """Decide in order which items fit, each on what those before it leave."""
    plan = _Plan([], [], [])
    balances: list[tuple[Entry, Balance]] = []
    unusable = ""
    for entry in quotas:
        quota = entry.message
        assert isinstance(quota, ResourceQuota)
        try:
            balances.append((entry, Balance(quota)))
        except QuantityError as error:  # written by somebody else than an API server
            unusable = unusable_because(quota, error)
    charged: set[str] = set()
    for waiting in items:
        usage = waiting.new.usage or Usage({})
        concerned = [(entry, each) for entry, each in balances if each.concerns(usage.scopes)]
        why = unusable or excess_of([balance for _, balance in concerned], usage.amounts)
        if why:
            new = waiting.new
            name = new.key.rpartition("/")[2]
            plan.refused.append((waiting, errors.forbidden(new.kind, name, why)))
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
    """Return why nothing can be charged to a quota whose amounts are none."""
    return f"quota {quota.metadata.name} cannot be used: {error}"


def charged_value(entry: Entry, balance: Balance) -> bytes:
    """Return a quota as it is to be stored, with what its balance says is used."""
    quota = entry.decode()
    assert isinstance(quota, ResourceQuota)
    set_used(quota, balance.used)
    return quota.SerializeToString()


def excess_of(balances: Iterable[Balance], usage: Amounts) -> str:
    """Return why so much would be too much for one of the quotas; "" if it is not."""
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
        waiting.settle(error or errors.conflict(new.kind, new.key.rpartition("/")[2]))


def _later(cached: Entry, known: Entry | None) -> Entry:
    return known if known is not None and known.revision > cached.revision else cached


def _namespace(new: New) -> str:
    return new.key.partition("/")[0]
