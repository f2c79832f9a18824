"""The elector: performs the effects of ``podsched.term.election.step`` and reports events to it.

It decides nothing. Reads, writes, watches, the timer and the connection to the leader are tasks of
their own that put events into one queue; one loop takes them out and calls ``step`` with the time.

Guarantee: callbacks run in that loop, one after another, in the order of the effects;
on_started_leading and on_stopped_leading alternate, and the latter comes on every way out, also
when the elector is cancelled or fails. ``is_leader()`` asks the clock each time, so a process that
was paused past its lease does not lead even before the loop has noticed.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Term
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import ElectionLock
from podsched.term.election.events import (
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    Event,
    Halt,
    HandOverRequested,
    LeaderConnectionBroken,
    NewLeader,
    ReadRecord,
    Release,
    Renew,
    ScheduleTimer,
    Started,
    StartLeading,
    StopLeading,
    StopReason,
    StopRequested,
    TermOver,
    TimerFired,
    TryAcquire,
)
from podsched.term.election.lock_io import BackgroundTasks, LockIO
from podsched.term.election.lock_view import Candidate, LockView
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from podsched.term.election.peers import PeerListener, PeerTls, advertised_address, follow_leader
from podsched.term.election.states import Leading, Standby, State, Stopped, is_stuck, leads
from podsched.term.election.step import step
from podsched.v1 import api_pb2

_log = get_logger("election")


class LeaderElector:
    """One candidate for one lock. ``run`` it once; ``stop`` it from anywhere in the same loop."""

    def __init__(
        self,
        lock: ElectionLock,
        settings: LeaderElectionSettings,
        identity: str,
        callbacks: ElectionCallbacks,
        *,
        options: ElectionOptions | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Raise CertificateError for TLS files of the options that cannot be used.

        identity: unique to this process, as in "hostname_UUID"; it may not be empty.
        """
        if not identity or "\n" in identity:
            raise ValueError(f"not an identity: {identity!r}")
        self._settings = settings
        self._options = options or ElectionOptions()
        self._callbacks = callbacks
        self._chance = chance or random.Random(identity)
        self._lock = lock
        self._peer_tls = PeerTls(self._options.tls) if self._options.tls else None
        self._listener = PeerListener(identity, self._peer_tls)
        candidate = Candidate(
            identity=identity,
            settings=settings,
            liveness_ttl=self._options.liveness_ttl,
            race_jitter=self._options.race_jitter,
            coordinated=self._options.coordinated,
        )
        self._state: State = Standby(view=LockView(candidate=candidate))
        self._events: asyncio.Queue[tuple[Event, float]] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._entered = False
        self._leading = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: BackgroundTasks | None = None
        self._io: LockIO | None = None
        self._connection: asyncio.Task[None] | None = None
        self.slow_paths = 0

    # -- what the owner asks -----------------------------------------------------------------

    @property
    def identity(self) -> str:
        """The candidate's own identity."""
        return self._state.view.identity

    @property
    def state(self) -> State:
        """The current state of the elector, for status pages and debugging."""
        return self._state

    def is_leader(self) -> bool:
        """Return whether this candidate may act as leader now."""
        return self._leading and leads(self._state, asyncio.get_running_loop().time())

    @property
    def leader_identity(self) -> str:
        """The identity of the leader as far as is known, "" for nobody."""
        return self._state.view.announced

    @property
    def term(self) -> Term:
        """The present leader's term as last seen, 0 for none."""
        snapshot = self._state.view.snapshot
        return snapshot.term if snapshot else Term(0)

    @property
    def transitions(self) -> int:
        """LeaderTransitions as last seen."""
        return max(self._state.view.transitions, 0)

    def check_health(self) -> str | None:
        """Return what is wrong, None if nothing: the "leaderElection" check of /healthz."""
        if not is_stuck(self._state, asyncio.get_running_loop().time()):
            return None
        return f"failed election to renew leadership on lease {self._settings.resource_name}"

    # -- its life ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Race, lead, and race again, until stopped.

        Raises OSError if it cannot listen for peers, and an ExceptionGroup with whatever a callback
        raised; the lock is not released then, its liveness key goes.
        """
        if self._entered:
            raise RuntimeError("an elector runs once")
        self._entered = True
        try:
            await self._listen()
            async with asyncio.TaskGroup() as group:
                tasks = BackgroundTasks(group)
                self._start_tasks(tasks)
                await self._loop()
                tasks.cancel()
            if self._settings.release_on_cancel:
                # Else the key is left to expire with the process: others must not race early.
                await self._lock.revoke()
        finally:
            if self._timer:
                self._timer.cancel()
            await self._close()

    async def stop(self, successor: str = "") -> None:
        """Stop leading, release the lock (if releaseOnCancel), return when ``run`` has ended.

        successor: identity of the candidate that is to lead next; the others let it go first.
        """
        if self._entered and not self._ended.is_set():
            self._post(StopRequested(successor))
            await self._ended.wait()

    def hand_over(self, successor: str) -> None:
        """If this candidate leads, leave the lock to the one of this identity, and stand by.

        "": to whoever is there; if that is nobody, this one leads again half a second later.
        """
        self._post(HandOverRequested(successor))

    def term_is_over(self, term: int) -> None:
        """Stop leading in this term: a write that carried its fence was refused."""
        self._post(TermOver(Term(term)))

    async def _close(self) -> None:
        try:
            if self._leading:
                self._stopped_leading(StopReason.ABANDONED)
        finally:
            self._ended.set()
            await self._listener.close(released=self._has_released())

    def _has_released(self) -> bool:
        """Whether it has left the race, and the lock, as last seen, is not its own."""
        snapshot = self._state.view.snapshot
        if snapshot is None or not isinstance(self._state, Stopped):
            return False
        return snapshot.holder != self.identity

    async def _listen(self) -> None:
        options, view = self._options, self._state.view
        if options.listen_host is None:
            return
        port = await self._listener.start(options.listen_host, options.listen_port)
        address = advertised_address(options.listen_host, port, options.advertise_address)
        view = replace(view, candidate=replace(view.candidate, address=address))
        self._state = replace(self._state, view=view)

    def _start_tasks(self, tasks: BackgroundTasks) -> None:
        self._tasks = tasks
        self._io = LockIO(
            self._lock,
            tasks,
            patience=self._settings.retry_period,
            post=self._post,
            on_renewal=self._callbacks.on_renewal,
        )
        self._io.watch()
        tasks.start(self._lock.keep_alive(), "keep-alive")

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._handle(Started(), loop.time())
        while not isinstance(self._state, Stopped):
            event, not_before = await self._events.get()
            self._handle(event, max(loop.time(), not_before))

    def _post(self, event: Event, not_before: float = 0.0) -> None:
        """not_before: a timer may fire early by the clock's resolution, and would be set again."""
        self._events.put_nowait((event, not_before))

    def _handle(self, event: Event, now: float) -> None:
        before = type(self._state)
        self._state, effects = step(self._state, event, now, chance=self._chance.random())
        if type(self._state) is not before:
            phase, cause = type(self._state).__name__, type(event).__name__
            _log.debug("Changed phase", phase=phase, cause=cause)
        for effect in effects:
            self._perform(effect)

    # -- effects -----------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        assert self._io is not None
        match effect:
            case ReadRecord():
                self.slow_paths += isinstance(self._state, Leading)
                self._io.read()
            case TryAcquire() | Renew() | Release():
                self._io.write(effect)
            case ScheduleTimer(at):
                self._schedule(at)
            case ConnectToLeader():
                self._connect(effect)
            case DisconnectFromLeader():
                self._disconnect()
            case StartLeading(term):
                self._started_leading(term)
            case StopLeading(reason):
                self._stopped_leading(reason)
            case NewLeader(identity):
                _log.info("New leader", leader=identity)
                self._callbacks.on_new_leader(identity)
            case Halt():
                pass  # the state ends the loop

    def _started_leading(self, term: Term) -> None:
        self._leading = True
        _log.info("Started leading", identity=self.identity, term=term)
        self._callbacks.on_started_leading(self._fence(term))

    def _stopped_leading(self, reason: StopReason) -> None:
        self._leading = False
        _log.info("Stopped leading", identity=self.identity, reason=reason.value)
        self._callbacks.on_stopped_leading(reason)

    def _fence(self, term: Term) -> api_pb2.Fence:
        return api_pb2.Fence(lock=self._settings.lock, term=term)

    def _schedule(self, at: float) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(at, self._post, TimerFired(), at)

    def _connect(self, effect: ConnectToLeader) -> None:
        def report(confirmed: bool) -> None:
            self._post(LeaderConnectionBroken(effect.identity, effect.term, confirmed))

        self._disconnect()
        assert self._tasks is not None
        connection = follow_leader(
            effect.address,
            effect.identity,
            report,
            chance=self._chance.random,
            tls=self._peer_tls,
        )
        self._connection = self._tasks.start(connection, "connection")

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.cancel()
            self._connection = None
