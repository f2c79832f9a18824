"""Connects to one of etcd's members, preferably its leader, and fails over to the next one.

Every member serves the whole cluster, so one connection at a time is enough. Each endpoint has its
own gRPC channel, because one channel with a list of addresses would stay with a member that is
reachable but partitioned from its peers ("no leader"). ``leader`` finds the leader.

A member that does not answer small reads is left, and its channel closed, if another one answers
(``lib.server_health``).

Guarantee: a call that fails with ``Unavailable`` has not been applied. Calls that change something
are sent only on a ready connection, and at most once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import grpc

from podsched.lib.backoff import Backoff
from podsched.lib.server_health import leave_silent_servers
from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.errors import Closed, MaybeApplied, Unavailable
from podsched.serve.store.leader import LeaderSearch
from podsched.serve.store.member_health import MemberHealth
from podsched.serve.store.members import Members
from podsched.serve.store.tokens import AuthToken
from podsched.serve.store.translate import is_stale_token, translate

#: Seconds of pause after all endpoints were tried: first, and max.
RETRY_FIRST, RETRY_MOST = 0.05, 1.0
#: Seconds for a member to accept a connection before another one is tried; doubled each time that
#: all were tried.
FIRST_DIAL = 0.3
#: Seconds in which writes that were sent before are answered once etcd has elected another leader.
#: The new leader knows within milliseconds which of them it has. Those that are lost got no answer
#: until the request timeout, though the member was well: with its leader cut off from the others
#: for 1.2 s, 15 writes took 5.5 s.
LOST_AFTER = 0.5


class Endpoints:
    """The connection in use; switches to the next endpoint when it fails."""

    def __init__(self, options: EtcdOptions, elects: Callable[[], None] = lambda: None) -> None:
        """Raise InvalidRequest without endpoints, CertificateError for unusable files.

        ``elects``: called when an answer shows that etcd has elected a leader, or elects one.
        """
        self.options = options
        self.closed = False
        self.members = Members(options)
        self.token = AuthToken(options)
        self.leader = LeaderSearch(self.members, self.token)
        self.health = MemberHealth(self.members, self.token, self.leader, self._note_term)
        self._watching: tuple[asyncio.Task[None], ...] = ()
        self._elects = elects
        #: The time limits of the writes in flight.
        self._limits: set[asyncio.Timeout] = set()
        self.raft_term = 0
        """The highest Raft term seen in an answer; 0 before the first, also of a restored etcd."""

    @property
    def current(self) -> Connection:
        """The connection in use."""
        silence = self.options.silence
        if silence and not self._watching and len(self.members) > 1 and not self.closed:
            self._watching = (
                asyncio.create_task(
                    leave_silent_servers(self.health, silence), name="health of etcd's members"
                ),
                asyncio.create_task(self.leader.follow(), name="etcd's leader"),
            )
        return self.members.connection_to(self.members.position)

    def _note_term(self, raft_term: int) -> None:
        before, self.raft_term = self.raft_term, max(self.raft_term, raft_term)
        # The first answer shows no election: the term may be old.
        if before and self.raft_term > before:
            self.leader.forget()
            self._elects()
            until = asyncio.get_running_loop().time() + LOST_AFTER
            for limit in self._limits:
                if not limit.expired():
                    limit.reschedule(min(limit.when() or until, until))

    def begin_anew(self) -> None:
        """Forget the Raft term: an etcd that was restored from a backup counts its terms anew."""
        self.raft_term = 0

    def backoff(self) -> Backoff:
        """Return a new backoff for a call's retries; the first round of endpoints has no pauses."""
        rest = len(self.members) - 1
        return Backoff(RETRY_FIRST, RETRY_MOST, random.random, immediate=rest)

    async def connected(self) -> Connection:
        """Return a ready connection, trying the endpoints in turn until the request timeout.

        Raises Unavailable, Closed.
        """
        deadline = asyncio.get_running_loop().time() + self.options.request_timeout
        return await self._connected_by(deadline)

    async def _connected_by(self, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        backoff, tried = self.backoff(), 0
        while True:
            self._check_open()
            connection = self.current
            left = deadline - loop.time()
            dial = self.options.dial_timeout
            if len(self.members) > 1:
                # The kernel still accepts connections for a member that stands still.
                dial = min(dial, FIRST_DIAL * 2 ** (tried // len(self.members)))
            if await connection.ready(min(dial, max(left, 0.001))):
                return connection
            tried += 1
            self.members.leave(connection)
            delay = backoff.next_delay()
            if loop.time() + delay >= deadline:
                names = ", ".join(self.options.endpoints)
                raise Unavailable(f"no etcd endpoint of {names} can be reached")
            await asyncio.sleep(delay)

    def _check_open(self) -> None:
        if self.closed:
            raise Closed("the store is closed")

    async def call(self, method: Callable[[Connection], Any], request: Any, *, safe: bool) -> Any:
        """Make a unary call and return its answer. Raises StoreError.

        safe: the call is idempotent, so it is retried on other endpoints if its answer is lost.
            Other calls are retried only if they have certainly not been applied.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.options.request_timeout
        backoff, authenticated_anew = self.backoff(), False
        while True:
            if not safe:
                await self.leader.wait(deadline)
            connection = await self._connected_by(deadline)
            if not safe and self.leader.is_awaited:
                continue  # The leader could not be reached after all.
            timeout = max(deadline - loop.time(), 0.001)
            if safe:  # leave time for the other endpoints if this one hangs
                timeout = min(timeout, self.options.request_timeout / len(self.members))
            try:
                answer = await self._ask(connection, method, request, timeout, safe=safe)
                self._note_term(answer.header.raft_term)
                return answer
            except grpc.aio.AioRpcError as error:
                if is_stale_token(error) and not authenticated_anew and self.token.forget():
                    authenticated_anew = True
                    continue
                fault = translate(error, safe=safe)
                if fault.retryable or fault.outcome_unknown:
                    self.members.leave(connection)
                delay = backoff.next_delay()
                if not fault.retryable or loop.time() + delay >= deadline:
                    raise fault from error
            except (asyncio.CancelledError, grpc.aio.UsageError):
                self._check_open()  # closing the channels cancels the calls on them
                raise
            await asyncio.sleep(delay)

    async def _ask(
        self,
        connection: Connection,
        method: Callable[[Connection], Any],
        request: Any,
        timeout: float,
        *,
        safe: bool,
    ) -> Any:
        """Make a call once. Raises AioRpcError, and MaybeApplied for a write that is lost."""
        limit = asyncio.timeout(None)
        if not safe:
            self._limits.add(limit)
        try:
            async with limit:
                with connection.failing():
                    metadata = await self.token.metadata(connection)
                    return await method(connection)(request, timeout=timeout, metadata=metadata)
        except TimeoutError:
            raise MaybeApplied("etcd: no answer, and another leader was elected") from None
        finally:
            self._limits.discard(limit)

    async def close(self) -> None:
        """Close all connections; calls on them end with ``Closed``."""
        self.closed = True
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self.members.close()
