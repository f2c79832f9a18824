"""Group commit: writes that arrive together share one etcd transaction.

While one group is in flight, the next one gathers writes; it is sent when the first returns. So an
idle store commits a write at once, and a busy store spreads etcd's fixed cost per transaction (a
raft round and an fsync) over all waiting writes. If there are many writes and etcd answers fast,
the next group gathers for a few more milliseconds (``Pace``).

A group has the same effect as its writes done one by one in the order submitted. But etcd evaluates
the compares of *all* nested transactions before it applies any of them, and refuses a key written
twice. So two writes conflict if one writes a key that the other compares or writes. A write that
conflicts with an earlier one in the group is held back. So is a write that conflicts with an
earlier held-back write, which would otherwise be overtaken. Held-back writes come first in the next
group.

A full etcd refuses a group if any of its writes has a put. Its writes with only deletes are then
sent again alone, because they free space.

A slow group does not block the others. When etcd's leader changes, a write that a follower has
forwarded to the old leader is lost without an answer, and its outcome stays unknown until shortly
after the election (``endpoints.LOST_AFTER``). So after ``OVERDUE`` seconds the next groups are
sent, without the writes that conflict with the overdue group by the rule above. Each overdue group
doubles the time of the next one: etcd needs up to two seconds to detect the loss of its leader and
to elect another, and all groups sent until then are lost, too. Once it votes, they hold up no
others any more (``GroupCommit.elects``).

``GroupQueue`` selects groups (pure), ``GroupCommit`` sends them. Nothing is retried here: writes of
a group with unknown outcome get ``MaybeApplied``.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from podsched.serve.store.errors import (
    Closed,
    InvalidRequest,
    LeaseNotFound,
    MaybeApplied,
    NoSpace,
    StoreError,
    TooLarge,
)
from podsched.serve.store.protocol import Put, Write, WriteOutcome, WriteResult

HELD_BACK_AT_MOST = 256
"""Max writes held back per group before the batcher stops scanning the queue: with a few hot keys
the scan would otherwise be quadratic in the length of the queue."""


OVERDUE = 0.25
"""Seconds after which a group no longer blocks the others, doubled for each group that is already
overdue; a transaction takes a few milliseconds, with a slow disk tens of them."""

MOST_OVERDUE = 4
"""Max overdue groups; no more are sent, so as not to overload a slow etcd."""


#: Seconds in which the count of recent writes decays to 1/e.
_WINDOW: Final = 0.05
#: Writes within the window from which on groups gather, 600 a second; seconds for each that is
#: beyond; and the longest, reached at 1,200 writes a second. 100 pods a second, of three writes
#: each, wait for nothing. Pods created one by one, 32 at a time: without gathering half of all
#: groups had a single write, and a pod cost 0.6 transactions instead of 0.15 and 1.6 times the CPU
#: of all processes. With 10 ms the writes of 32 callers fell apart into more groups: 1.12 times the
#: CPU of 12 or 15 ms. Callers wait 3 ms less for 12 than for 15: 1.06 times as many pods a second.
#: The limit is reached soon, because a busier machine writes less a second.
_FEW, _PER_WRITE, _LONGEST_INTERVAL = 30, 400e-6, 0.012


class Pace:
    """Computes how long a group gathers: longer after many recent writes. Pure.

    Times are seconds of any monotonic clock.
    """

    __slots__ = ("_lately", "_sent_at")

    def __init__(self) -> None:
        self._lately = 0.0
        self._sent_at = -math.inf

    def sent(self, writes: int, now: float) -> None:
        """Record a group that is being sent."""
        self._lately = self._lately_at(now) + writes
        self._sent_at = now

    def pause(self, now: float) -> float:
        """Return how many seconds a new group gathers, unless it is full earlier.

        Groups are an interval apart, and each gathers for at least half of one: after an answer
        many writes arrive one by one, and the first of them would otherwise be sent alone.
        """
        beyond = self._lately_at(now) - _FEW
        if beyond <= 0:
            return 0.0
        interval = min(beyond * _PER_WRITE, _LONGEST_INTERVAL)
        return max(self._sent_at + interval - now, interval / 2)

    def _lately_at(self, now: float) -> float:
        return self._lately * math.exp((self._sent_at - now) / _WINDOW)


class GroupLimits(NamedTuple):
    """The limits of one etcd transaction.

    max_writes: throughput hardly grows beyond.
    max_txn_ops: etcd's --max-txn-ops. It counts the outer operations plus those of the widest
        nested transaction, so 128 permits 120 writes of up to 8 compares, puts or deletes each.
    max_bytes: of the whole request; two thirds of etcd's --max-request-bytes, for its framing. A
        single larger write is sent alone, and etcd may refuse it.
    """

    max_writes: int = 120
    max_txn_ops: int = 128
    max_bytes: int = 1_000_000


class _Batch:
    """One caller's writes: their outcomes, and the future that resolves with the last."""

    __slots__ = ("future", "outcomes", "remaining")

    def __init__(self, future: asyncio.Future[list[WriteOutcome]], size: int) -> None:
        self.future = future
        self.outcomes: list[WriteOutcome | None] = [None] * size
        self.remaining = size

    def settle(self, index: int, outcome: WriteOutcome) -> None:
        self.outcomes[index] = outcome
        self.remaining -= 1
        # The future is done early if its caller was cancelled; the writes go on.
        if not self.remaining and not self.future.done():
            self.future.set_result([o for o in self.outcomes if o is not None])


class Member(NamedTuple):
    """A queued write: its encoding, the keys it compares and writes, and its caller's batch.

    width: its share of max-txn-ops, the longest of its compares, ops and failure reads.
    """

    write: Write
    encoded: bytes
    compared: list[str]
    written: list[str]
    width: int
    batch: _Batch
    position: int

    @property
    def puts(self) -> bool:
        """Whether it has puts, which need space; a full etcd accepts only deletes."""
        return any(isinstance(op, Put) for op in self.write.ops)

    def settle(self, outcome: WriteOutcome) -> None:
        """Report the outcome to the caller."""
        self.batch.settle(self.position, outcome)


class GroupQueue:
    """The queued writes in order; selects the next group without conflicts."""

    def __init__(self, limits: GroupLimits) -> None:
        self._limits = limits
        self._queue: deque[Member] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, member: Member) -> None:
        """Queue a write behind all others."""
        self._queue.append(member)

    def take(self, overdue: Sequence[Sequence[Member]] = ()) -> list[Member]:
        """Remove and return the next group, in order; empty if no queued write may be sent.

        overdue: groups that are still in flight.
        """
        queue, limits = self._queue, self._limits
        group: list[Member] = []
        held_back: list[Member] = []
        written = {key for flying in overdue for member in flying for key in member.written}
        compared = {key for flying in overdue for member in flying for key in member.compared}
        room, widest, size = min(limits.max_writes, limits.max_txn_ops - 1), 1, 0
        while queue and len(group) < room and len(held_back) < HELD_BACK_AT_MOST:
            member = queue[0]
            free = (
                written.isdisjoint(member.written)
                and written.isdisjoint(member.compared)
                and compared.isdisjoint(member.written)
            )
            if free:
                if member.width > widest:
                    widest = member.width
                    room = min(room, limits.max_txn_ops - widest)
                size += len(member.encoded)
                if group and (len(group) >= room or size > limits.max_bytes):
                    break
                group.append(member)
            else:
                held_back.append(member)
            # Held-back writes count from here on, too: no later write of the same keys may overtake
            # them.
            queue.popleft()
            written.update(member.written)
            compared.update(member.compared)
        queue.extendleft(reversed(held_back))
        return group


Commit = Callable[[Sequence[Member]], Awaitable[list[WriteResult]]]
"""Applies a group in one transaction: returns a result per member, or raises for all of them."""

REFUSED_WHOLE = (TooLarge, InvalidRequest, LeaseNotFound)
"""Errors with which etcd refuses a transaction as a whole because of one member.

Not ``Unauthorized``: credentials are the store's and not a member's, and etcd 3.5 checks
permissions on plain transactions only, not on the nested ones of a group.
"""


class GroupCommit:
    """Sends groups of writes to etcd, by a task that sends one after another.

        gathering --pause over, or full--> sending --answer--> gathering the next group
                                              |
                                              '--OVERDUE seconds--> another task takes over;
                                                                    this one ends after its answer

    commit: sends a group. encode: encodes a write as a nested transaction; it is called when a
    write is submitted, so that encoding overlaps with the group in flight.
    """

    def __init__(
        self, commit: Commit, encode: Callable[[Write], bytes], limits: GroupLimits
    ) -> None:
        self._commit = commit
        self._encode = encode
        self._queue = GroupQueue(limits)
        self._wake = asyncio.Event()
        self._pace = Pace()
        self._most = limits.max_writes
        self._full = asyncio.Event()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        #: The group that no other may overtake yet.
        self._sent: Sequence[Member] | None = None
        #: Groups that have been overtaken and have no answer yet; those from before the last
        #: election of etcd count as lost.
        self._overdue: list[Sequence[Member]] = []
        self._lost: list[Sequence[Member]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._start()

    def submit(self, writes: Sequence[Write]) -> asyncio.Future[list[WriteOutcome]]:
        """Queue writes; the future resolves with an outcome for each and never raises."""
        future: asyncio.Future[list[WriteOutcome]] = self._loop.create_future()
        if self._closed or not writes:
            future.set_result([Closed("the store is closed")] * len(writes))
            return future
        encoded = [self._encode(write) for write in writes]
        batch = _Batch(future, len(writes))
        for index, write in enumerate(writes):
            compared = [compare.key for compare in write.compares]
            written = [op.key for op in write.ops]
            width = max(len(compared), len(written), 1)
            self._queue.add(Member(write, encoded[index], compared, written, width, batch, index))
        self._wake.set()
        if len(self._queue) >= self._most:
            self._full.set()
        return future

    def elects(self) -> None:
        """Note that etcd elects a leader: groups in flight are probably lost, so others go on."""
        # Apart from the overdue ones, since lost groups neither lengthen the patience nor count for
        # MOST_OVERDUE; but they may still be applied, so no write in conflict with them is sent.
        self._lost += self._overdue
        self._overdue = []
        if self._sent is not None and not self._closed:
            self._lost.append(self._sent)
            self._sent = None
            self._start()

    async def wait(self) -> None:
        """Wait until the driver has ended. Raises its error."""
        await asyncio.wait([self._ended])
        if (bug := self._ended.result()) is not None:
            raise bug

    async def close(self) -> None:
        """Stop; queued writes fail with ``Closed``, writes in flight with ``MaybeApplied``."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self) -> None:
        task = self._loop.create_task(self._run(), name="store-group-commit")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        bug = None if task.cancelled() else task.exception()
        if bug is None and not task.cancelled():
            return  # its group was overdue, and another task has taken over
        # Also after a bug in commit: no caller must wait for a task that has ended.
        self._closed = True
        if not self._ended.done():
            self._ended.set_result(bug)
        while group := self._queue.take():
            for member in group:
                member.settle(Closed("the store was closed before the write was sent"))

    async def _run(self) -> None:
        """Send group after group; return after a group that became overdue."""
        while True:
            if len(self._queue):
                await self._gather()
            group = self._queue.take([*self._overdue, *self._lost])
            if not group:
                # No await since take(): a submit in between would set the event, and this would
                # clear it.
                self._wake.clear()
                await self._wake.wait()
                continue
            self._pace.sent(len(group), self._loop.time())
            patience = OVERDUE * 2 ** len(self._overdue)
            timer = self._loop.call_later(patience, self._overtake, group)
            self._sent = group
            try:
                await self._send(group)
            finally:
                timer.cancel()
            # Another task has taken over while this one waited; if both went on, two would send at
            # a time.
            if self._sent is not group:
                self._overdue = [other for other in self._overdue if other is not group]
                self._lost = [other for other in self._lost if other is not group]
                self._wake.set()
                return
            self._sent = None

    async def _gather(self) -> None:
        """Wait for the pause that the pace computes, or until the next group is full."""
        pause = self._pace.pause(self._loop.time())
        if pause > 0 and len(self._queue) < self._most:
            self._full.clear()
            timer = self._loop.call_later(pause, self._full.set)
            try:
                await self._full.wait()
            finally:
                timer.cancel()

    def _overtake(self, group: Sequence[Member]) -> None:
        """Start another task to send the next groups, if not too many are in flight."""
        if self._sent is group and len(self._overdue) < MOST_OVERDUE and not self._closed:
            self._overdue.append(group)
            self._sent = None
            self._start()

    async def _send(self, group: Sequence[Member]) -> None:
        """Send a group and report the outcome of each write."""
        parts = [group]
        try:
            while parts:
                again = await self._send_part(parts[-1])
                parts[-1:] = again
        except BaseException as cause:
            lost = _lost(cause)
            for part in parts:
                for member in part:
                    member.settle(lost)
            raise

    async def _send_part(self, group: Sequence[Member]) -> list[Sequence[Member]]:
        """Send a group once; return the parts of it to be sent again, the next one last."""
        outcomes: Sequence[WriteOutcome]
        try:
            outcomes = await self._commit(group)
        except REFUSED_WHOLE as fault:
            if len(group) > 1:
                # Bisecting isolates the faulty write in a few round trips. Members of a group are
                # independent, so its halves can be sent separately.
                half = len(group) // 2
                return [group[half:], group[:half]]
            outcomes = [fault]
        except NoSpace as fault:
            # A full etcd refuses the writes with puts.
            refused = [member for member in group if member.puts] or group
            for member in refused:
                member.settle(fault)
            if len(refused) == len(group):
                return []
            return [[member for member in group if not member.puts]]
        except StoreError as fault:
            outcomes = [fault] * len(group)
        for member, outcome in zip(group, outcomes, strict=True):
            member.settle(outcome)
        return []


def _lost(cause: BaseException) -> StoreError:
    """Return the outcome of writes that were in flight when the driver ended."""
    fault = MaybeApplied("the store was closed while the write was in flight")
    fault.__cause__ = cause
    return fault
