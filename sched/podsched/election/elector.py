"""The elector: performs the effects of `podsched.election.step` and reports events to it.

It decides nothing. Reads, writes, watches, the timer and the stream to the leader are tasks of
their own that put events into one queue; one loop takes them out and calls `step` with the time.

Guarantee: callbacks run in that loop, one after another, in the order of the effects;
on_started_leading and on_stopped_leading alternate, and the latter comes on every way out, also
when the elector is cancelled or fails. `is_leader()` and `fence` ask the clock each time, so a
process that was paused past its lease does not lead even before the loop has noticed.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import structlog

from podsched.config.leader_election import LeaderElectionSettings
from podsched.election.events import (
    Candidate,
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    Event,
    Halt,
    NewLeader,
    Observed,
    Phase,
    ReadRecord,
    Refused,
    Release,
    Renew,
    ScheduleTimer,
    Started,
    StartLeading,
    State,
    StopLeading,
    StopReason,
    StopRequested,
    StreamBroken,
    TimerFired,
    TryAcquire,
    Unanswered,
    Written,
)
from podsched.election.liveness import LivenessLease
from podsched.election.lock import Lock
from podsched.election.record import LeaderElectionRecord, LockKeys
from podsched.election.step import step
from podsched.election.stream import Beacon, follow
from podsched.lib.ids import Revision, Term
from podsched.store.errors import Compacted, StoreError
from podsched.store.protocol import Store
from podsched.v1 import api_pb2

_log = structlog.get_logger("podsched.election")

#: kube-scheduler's leader election watchdog: seconds past the lease before /healthz fails.
HEALTH_TOLERANCE = 20.0


def _ignore(_: object) -> None:
    pass


def _ignore_renewal(result: str, seconds: float) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ElectionCallbacks:
    """What the owner does about leadership. They must not block; an exception ends the elector."""

    on_started_leading: Callable[[api_pb2.Fence], None] = _ignore
    on_stopped_leading: Callable[[StopReason], None] = _ignore
    on_new_leader: Callable[[str], None] = _ignore
    on_renewal: Callable[[str, float], None] = _ignore_renewal
    """What came of a renewal (renewed, refused, error), and its seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionOptions:
    """What is not in KubeSchedulerConfiguration."""

    listen_host: str | None = "127.0.0.1"
    """Where standbys connect to; None: no beacon, so a killed leader is missed after 2 s."""
    listen_port: int = 0
    """0: any free port."""
    advertise_address: str = ""
    """The "host:port" or "host" as standbys reach it; what is left out is as bound."""
    liveness_ttl: int = 2
    """Seconds without a sign of life until standbys race; 2 is the least etcd grants; 0: off."""
    race_jitter: float = 0.02
    """Standbys that see the lock go free start within so many seconds of each other."""


@dataclass(slots=True)
class _Tasks:
    """The elector's background tasks, all named and cancelled with it."""

    group: asyncio.TaskGroup
    running: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = self.group.create_task(work, name=f"election:{name}")
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return task

    def cancel(self) -> None:
        for task in self.running:
            task.cancel()


class LeaderElector:
    """One candidate for one lock. `run` it once; `stop` it from anywhere in the same loop."""

    def __init__(
        self,
        store: Store,
        settings: LeaderElectionSettings,
        identity: str,
        callbacks: ElectionCallbacks,
        *,
        options: ElectionOptions | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """identity: unique to this process, as in "hostname_UUID"; it may not be empty."""
        if not identity or "\n" in identity:
            raise ValueError(f"not an identity: {identity!r}")
        self._settings = settings
        self._options = options or ElectionOptions()
        self._callbacks = callbacks
        self._chance = chance or random.Random(identity)
        keys = LockKeys(settings.resource_namespace, settings.resource_name)
        self._store = store
        self._liveness = LivenessLease(store, max(self._options.liveness_ttl, 1))
        self._lock = Lock(store, keys, self._liveness)
        self._beacon = Beacon(identity)
        candidate = Candidate(
            identity=identity,
            settings=settings,
            liveness_ttl=self._options.liveness_ttl,
            race_jitter=self._options.race_jitter,
        )
        self._state = State(candidate=candidate)
        self._events: asyncio.Queue[tuple[Event, float]] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._entered = False
        self._leading = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: _Tasks | None = None
        self._stream: asyncio.Task[None] | None = None
        self._reading = self._read_again = False
        self.slow_paths = 0

    # -- what the owner asks -----------------------------------------------------------------

    @property
    def identity(self) -> str:
        """This candidate's own identity."""
        return self._state.identity

    @property
    def state(self) -> State:
        """All that the elector knows at this moment, for status pages and debugging."""
        return self._state

    @property
    def address(self) -> str:
        """The "host:port" of this candidate's beacon, "" until it runs or without one."""
        return self._state.candidate.address

    def is_leader(self) -> bool:
        """Whether this candidate may act as leader now."""
        return self._leading and self._state.leads(asyncio.get_running_loop().time())

    @property
    def fence(self) -> api_pb2.Fence | None:
        """What a leader's write must carry; None while not leading."""
        return self._fence(self._state.term) if self.is_leader() else None

    @property
    def leader_identity(self) -> str:
        """Who leads as far as is known, "" for nobody."""
        return self._state.announced

    @property
    def term(self) -> Term:
        """The present leader's term as last seen, 0 for none."""
        return self._state.snapshot.term if self._state.snapshot else Term(0)

    @property
    def record(self) -> LeaderElectionRecord | None:
        """The record as last seen."""
        return self._state.snapshot.record if self._state.snapshot else None

    @property
    def transitions(self) -> int:
        """LeaderTransitions as last seen."""
        return max(self._state.transitions, 0)

    @property
    def renew_time(self) -> datetime | None:
        """RenewTime of the record as last seen; the holder's wall clock."""
        return self.record.renew_time if self.record else None

    def check_health(self) -> str | None:
        """Return what is wrong, None if nothing: the "leaderElection" check of /healthz.

        It fails when this candidate believes to lead although its lease ended over 20 s ago,
        which means that its loop hangs (LeaderHealthzAdaptor of client-go).
        """
        if not self._leading:
            return None
        over = self._state.renewed_at + self._settings.lease_duration + HEALTH_TOLERANCE
        if asyncio.get_running_loop().time() <= over:
            return None
        return f"failed election to renew leadership on lease {self._settings.resource_name}"

    # -- its life ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Race, lead, and race again, until stopped.

        Raises OSError if the beacon cannot listen, and an ExceptionGroup with whatever a callback
        raised; the lock is not released then, its liveness key goes.
        """
        if self._entered:
            raise RuntimeError("an elector runs once")
        self._entered = True
        try:
            await self._listen()
            async with asyncio.TaskGroup() as group:
                self._tasks = _Tasks(group)
                self._start_tasks(self._tasks)
                await self._loop()
                self._tasks.cancel()
            await self._liveness_after_halt()
        finally:
            if self._timer:
                self._timer.cancel()
            await self._close()

    async def stop(self) -> None:
        """Stop leading, release the lock (if releaseOnCancel), return when `run` has ended."""
        if self._entered and not self._ended.is_set():
            self._post(StopRequested())
            await self._ended.wait()

    async def _close(self) -> None:
        try:
            if self._leading:
                self._leading = False
                self._callbacks.on_stopped_leading(StopReason.ABANDONED)
        finally:
            self._ended.set()
            await self._beacon.close()

    async def _liveness_after_halt(self) -> None:
        """Return a candidate that may not release leaves its key to expire with its process."""
        if self._settings.release_on_cancel:
            await self._liveness.revoke()

    async def _listen(self) -> None:
        options = self._options
        if options.listen_host is None:
            return
        port = await self._beacon.start(options.listen_host, options.listen_port)
        address = _advertised(options, port)
        self._state = replace(
            self._state, candidate=replace(self._state.candidate, address=address)
        )

    def _start_tasks(self, tasks: _Tasks) -> None:
        keys = self._lock.keys
        tasks.start(self._watch(keys.record), "watch-record")
        if self._options.liveness_ttl:
            tasks.start(self._watch(keys.liveness), "watch-liveness")
            tasks.start(self._liveness.keep_alive(), "keep-alive")

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._handle(Started(), loop.time())
        while self._state.phase is not Phase.STOPPED:
            event, not_before = await self._events.get()
            self._handle(event, max(loop.time(), not_before))

    def _post(self, event: Event, not_before: float = 0.0) -> None:
        """not_before: a timer may fire early by the clock's resolution, and would be set again."""
        self._events.put_nowait((event, not_before))

    def _handle(self, event: Event, now: float) -> None:
        before = self._state.phase
        self._state, effects = step(self._state, event, now, chance=self._chance.random())
        if self._state.phase is not before:
            _log.debug("election", phase=self._state.phase.value, cause=type(event).__name__)
        for effect in effects:
            self._perform(effect)

    # -- effects -----------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        match effect:
            case ReadRecord():
                self.slow_paths += self._state.phase is Phase.LEADING
                self._request_read()
            case TryAcquire():
                self._write(effect.attempt, lambda: self._lock.acquire(effect))
            case Renew():
                self._write(effect.attempt, lambda: self._renew(effect))
            case Release():
                self._write(effect.attempt, lambda: self._lock.release(effect))
            case ScheduleTimer(at):
                self._schedule(at)
            case ConnectToLeader():
                self._connect(effect)
            case DisconnectFromLeader():
                self._disconnect()
            case StartLeading() | StopLeading() | NewLeader() | Halt():
                self._tell(effect)

    def _tell(self, effect: StartLeading | StopLeading | NewLeader | Halt) -> None:
        match effect:
            case StartLeading(term):
                self._leading = True
                _log.info("became leader", identity=self.identity, term=term)
                self._callbacks.on_started_leading(self._fence(term))
            case StopLeading(reason):
                self._leading = False
                _log.info("stopped leading", identity=self.identity, reason=reason.value)
                self._callbacks.on_stopped_leading(reason)
            case NewLeader(identity):
                _log.info("new leader elected", identity=identity)
                self._callbacks.on_new_leader(identity)
            case Halt():
                pass  # the phase ends the loop

    def _fence(self, term: Term) -> api_pb2.Fence:
        return api_pb2.Fence(lock=self._settings.lock, term=term)

    def _schedule(self, at: float) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(at, self._post, TimerFired(), at)

    def _connect(self, effect: ConnectToLeader) -> None:
        def report(confirmed: bool) -> None:
            self._post(StreamBroken(effect.identity, effect.term, confirmed))

        self._disconnect()
        assert self._tasks is not None
        self._stream = self._tasks.start(
            follow(effect.address, effect.identity, report, chance=self._chance.random), "stream"
        )

    def _disconnect(self) -> None:
        if self._stream:
            self._stream.cancel()
            self._stream = None

    # -- reading and writing the lock --------------------------------------------------------

    def _write(
        self,
        attempt: int,
        write: Callable[[], Awaitable[tuple[Revision, LeaderElectionRecord] | None]],
    ) -> None:
        assert self._tasks is not None
        self._tasks.start(self._attempt(attempt, write), "write")

    async def _attempt(
        self,
        attempt: int,
        write: Callable[[], Awaitable[tuple[Revision, LeaderElectionRecord] | None]],
    ) -> None:
        try:
            async with asyncio.timeout(self._settings.retry_period):
                result = await write()
        except (StoreError, TimeoutError) as error:
            _log.warning("lock not written", error=repr(error))
            self._post(Unanswered(attempt))
            return
        self._post(Written(attempt, *result) if result else Refused(attempt))

    async def _renew(self, effect: Renew) -> tuple[Revision, LeaderElectionRecord] | None:
        clock = asyncio.get_running_loop().time
        result, began = "error", clock()
        try:
            written = await self._lock.renew(effect)
            result = "renewed" if written else "refused"
            return written
        finally:
            self._callbacks.on_renewal(result, clock() - began)

    def _request_read(self) -> None:
        """One read at a time; a wish that comes meanwhile is for something newer than it sees."""
        if self._reading:
            self._read_again = True
            return
        assert self._tasks is not None
        self._reading = True
        self._tasks.start(self._read(), "read")

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(self._settings.retry_period):
                snapshot = await self._lock.read()
            self._post(Observed(snapshot))
        except (StoreError, TimeoutError) as error:
            self._read_again = False  # the timer tries again
            _log.warning("lock not read", error=repr(error))
        finally:
            self._reading = False
        if self._read_again:
            self._read_again = False
            self._request_read()

    async def _watch(self, key: str) -> None:
        """Every change of a key, and the watch's beginning, is a reason to read all three."""
        while True:
            try:
                async for batch in self._store.watch(key):
                    if not batch.events or any(event.kv.key == key for event in batch.events):
                        self._request_read()
            except Compacted:
                continue  # from now on; the read that this causes sees what was missed
            except StoreError as error:
                _log.error("lock not watched, polling only", key=key, error=repr(error))
                await asyncio.sleep(self._settings.retry_period)


def _advertised(options: ElectionOptions, port: int) -> str:
    """The "host:port" for the record; a wildcard host is nowhere to connect to."""
    host, _, advertised_port = options.advertise_address.rpartition(":")
    if not host:  # "host" alone, or nothing
        host, advertised_port = options.advertise_address, ""
    bound = options.listen_host or ""
    return f"{host or _reachable(bound)}:{advertised_port or port}"


def _reachable(host: str) -> str:
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
