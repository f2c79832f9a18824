"""Run one candidate: perform the effects of ``podsched.term.election.step`` and report events.

The elector decides nothing. Reads, writes, watches, the timer and the connection to the leader run
in separate tasks, which put events into a queue. One loop takes the events and calls ``step``.

Guarantee: callbacks run in that loop, one after another, in the order of the effects.
on_started_leading and on_stopped_leading alternate, and on_stopped_leading is called even if the
elector is cancelled or fails. ``is_leader()`` reads the clock each time, so a process that was
paused until its lease ended is not a leader, even before the loop has noticed.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Term
from podsched.lib.tasks import TaskSet
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import ElectionLock
from podsched.term.election.events import (
    ConnectToLeader,
    DisconnectFromLeader,
    Effect,
    Event,
    HandOverRequested,
    LeaderConnectionBroken,
    NewLeader,
    Reachability,
    ReadRecord,
    Release,
    Renew,
    ScheduleTimer,
    StartLeading,
    StopLeading,
    StopReason,
    StopRequested,
    TermOver,
    TimerFired,
    TryAcquire,
)
from podsched.term.election.lock_io import LockIO
from podsched.term.election.lock_view import Candidate, LockView
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from podsched.term.election.peers import PeerListener, PeerTls, advertised_address, follow_leader
from podsched.term.election.states import (
    Leading,
    Standby,
    State,
    Stopped,
    has_released,
    is_stuck,
    leads,
)
from podsched.term.election.step import step
from podsched.v1 import api_pb2

_log = get_logger("election")


class LeaderElector:
    """One candidate for one lock. ``run`` it once; ``stop`` it from any task of the same loop."""

    def __init__(
        self,
        lock: ElectionLock,
        settings: LeaderElectionSettings,
        identity: str,
        callbacks: ElectionCallbacks,
        *,
        options: ElectionOptions | None = None,
    ) -> None:
        """Raise CertificateError for unusable TLS files in the options.

        identity: unique to this process, like "hostname_UUID"; must not be empty.
        """
        if not identity or "\n" in identity:
            raise ValueError(f"not an identity: {identity!r}")
        self._settings = settings
        self._options = options or ElectionOptions()
        self._callbacks = callbacks
        self._chance = random.Random(identity)
        self._lock = lock
        self._peer_tls = PeerTls(self._options.tls) if self._options.tls else None
        self._listener = PeerListener(identity, self._peer_tls)
        candidate = Candidate(
            identity=identity,
            settings=settings,
            liveness_ttl=self._options.liveness_ttl,
            coordinated=self._options.coordinated,
            election_timeout=self._options.election_timeout,
        )
        self._state: State = Standby(view=LockView(candidate=candidate))
        self._events: asyncio.Queue[tuple[Event, float]] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._entered = False
        self._leading = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = TaskSet("the election")
        self._io = LockIO(
            lock,
            self._tasks,
            longest=lock.timeout,
            shortest=2 * candidate.heartbeat_interval,
            post=self._post,
            on_renewal=callbacks.on_renewal,
        )
        self._connection: asyncio.Task[None] | None = None
        self.slow_paths = 0

    # -- status ------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state after the last step; its ``view`` shows the lock as last seen."""
        return self._state

    def is_leader(self) -> bool:
        """Return whether this candidate may act as leader now."""
        return self._leading and leads(self._state, asyncio.get_running_loop().time())

    def check_health(self) -> str | None:
        """Return a problem or None: the "leaderElection" check of /healthz."""
        if not is_stuck(self._state, asyncio.get_running_loop().time()):
            return None
        return f"failed election to renew leadership on lease {self._settings.resource_name}"

    # -- running -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Race, lead, and race again, until stopped.

        Raises OSError if it cannot listen for peers, and whatever a callback raised; in that case
        the lock is not released, but its liveness key expires.
        """
        if self._entered:
            raise RuntimeError("an elector runs once")
        self._entered = True
        try:
            await self._listen()
            self._io.watch()
            self._tasks.start(self._lock.keep_alive(), "election: keep-alive")
            self._tasks.start(self._loop(), "election: loop", ended=lambda _loop: self._tasks.end())
            await self._tasks.run()
            if self._settings.release_on_cancel:
                # Otherwise the key expires later, so that other candidates do not race early.
                await self._lock.revoke()
        finally:
            if self._timer:
                self._timer.cancel()
            try:
                if self._leading:
                    self._stopped_leading(StopReason.ABANDONED)
            finally:
                self._ended.set()
                self._listener.close(released=has_released(self._state))

    async def stop(self, successor: str = "") -> None:
        """Stop leading, release the lock (if releaseOnCancel), return when ``run`` has ended.

        successor: the identity of the candidate that may claim the lock before the others.
        """
        if self._entered and not self._ended.is_set():
            self._post(StopRequested(successor))
            await self._ended.wait()

    def hand_over(self, successor: str) -> None:
        """If this candidate leads, hand the lock over to another candidate, and stand by.

        "": to any other candidate; if there is none, this one leads again after half a second.
        """
        self._post(HandOverRequested(successor))

    def note_reachability(self, api_servers: bool) -> None:
        """Note whether this candidate reaches any API server; if not, it gives the lock back."""
        self._post(Reachability(api_servers))

    def term_is_over(self, term: int) -> None:
        """Stop leading in this term, because a write with its fence was refused."""
        self._post(TermOver(Term(term)))

    async def _listen(self) -> None:
        options, view = self._options, self._state.view
        if options.listen_host is None:
            return
        port = await self._listener.start(options.listen_host, options.listen_port)
        address = advertised_address(options.listen_host, port, options.advertise_address)
        view = replace(view, candidate=replace(view.candidate, address=address))
        self._state = replace(self._state, view=view)

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        # The first event makes the candidate read the lock.
        self._handle(TimerFired(), loop.time())
        while not isinstance(self._state, Stopped):
            event, not_before = await self._events.get()
            # A timer may fire slightly early; ``step`` would find nothing due and set it again.
            self._handle(event, max(loop.time(), not_before))

    def _post(self, event: Event, not_before: float = 0.0) -> None:
        """not_before: the event's time at the earliest, because a timer may fire slightly early."""
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

    def _started_leading(self, term: Term) -> None:
        self._leading = True
        _log.info("Started leading", identity=self._state.view.identity, term=term)
        self._callbacks.on_started_leading(api_pb2.Fence(lock=self._settings.lock, term=term))

    def _stopped_leading(self, reason: StopReason) -> None:
        # First, so that ``is_leader`` is False in the callback.
        self._leading = False
        _log.info("Stopped leading", identity=self._state.view.identity, reason=reason.value)
        self._callbacks.on_stopped_leading(reason)

    def _schedule(self, at: float) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(at, self._post, TimerFired(), at)

    def _connect(self, effect: ConnectToLeader) -> None:
        def report(confirmed: bool) -> None:
            self._post(LeaderConnectionBroken(effect.identity, effect.term, confirmed))

        self._disconnect()
        connection = follow_leader(
            effect.address, effect.identity, report, chance=self._chance.random, tls=self._peer_tls
        )
        self._connection = self._tasks.start(connection, "election: connection to the leader")

    def _disconnect(self) -> None:
        if self._connection:
            self._connection.cancel()
            self._connection = None
