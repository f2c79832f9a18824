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
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from aetcd.rpc import rpc_pb2

from podsched.api.etcd_keys import SYNC
from podsched.lib.backoff import Backoff
from podsched.lib.certificate_files import CertificateFiles
from podsched.lib.server_health import Health, leave_silent_servers
from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.errors import Closed, InvalidRequest, StoreError, Unavailable
from podsched.serve.store.leader import LeaderSearch
from podsched.serve.store.tokens import AuthToken
from podsched.serve.store.translate import is_stale_token, translate
from podsched.telemetry.logs import get_logger, keeps_certificates

_log = get_logger("etcd")

#: Seconds of pause after all endpoints were tried: first, and max.
RETRY_FIRST, RETRY_MOST = 0.05, 1.0
#: Seconds for a member to accept a connection before another one is tried; doubled each time that
#: all were tried.
FIRST_DIAL = 0.3


class Endpoints:
    """The connection in use; switches to the next endpoint when it fails."""

    def __init__(
        self,
        options: EtcdOptions,
        elects: Callable[[], None] = lambda: None,
    ) -> None:
        """Raise InvalidRequest without endpoints, CertificateError for unusable files.

        ``elects``: called when an answer shows that etcd has elected a leader, or elects one.
        """
        if not options.endpoints:
            raise InvalidRequest("no etcd endpoints given")
        self.options = options
        names = (str(path) if path else "" for path in (options.ca, options.cert, options.key))
        self._files = CertificateFiles(*names)
        self._outdated: list[Connection] = []
        self.closed = False
        self.connections: list[Connection | None] = [None] * len(options.endpoints)
        self.position = 0
        """The index of the member in use."""
        self.token = AuthToken(options)
        self.leader = LeaderSearch(self, self.token)
        self._watching: tuple[asyncio.Task[None], ...] = ()
        self._elects = elects
        self.raft_term = 0
        """The highest Raft term seen in an answer; 0 before the first, also of a restored etcd."""

    @property
    def current(self) -> Connection:
        """The connection in use."""
        silence = self.options.silence
        if silence and not self._watching and len(self.endpoints) > 1 and not self.closed:
            self._watching = (
                asyncio.create_task(
                    leave_silent_servers(self, silence), name="health of etcd's members"
                ),
                asyncio.create_task(self.leader.follow(), name="etcd's leader"),
            )
        return self.connection_to(self.position)

    def connection_to(self, index: int) -> Connection:
        """Return the connection of a member; creating it does no I/O."""
        connection = self.connections[index]
        if connection is None:
            endpoint = self.options.endpoints[index]
            connection = Connection(endpoint, self.options, self._files.pems)
            self.connections[index] = connection
        return connection

    @property
    def endpoint(self) -> str:
        """The member in use."""
        return self.options.endpoints[self.position]

    @property
    def in_use(self) -> Sequence[str]:
        """The member in use: ``use`` ends the watches on any other one."""
        return (self.endpoint,)

    @property
    def endpoints(self) -> Sequence[str]:
        """All members."""
        return self.options.endpoints

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return whether a member that has a leader answers within seconds."""
        connection = self.connection_to(self.options.endpoints.index(endpoint))
        request = rpc_pb2.RangeRequest(key=SYNC.encode(), serializable=True)
        try:
            async with asyncio.timeout(timeout):
                metadata = await self.token.metadata(connection)
                answer = await connection.kv.Range(request, metadata=metadata)
        except (TimeoutError, StoreError):
            return Health.SILENT
        except grpc.aio.AioRpcError as error:
            retryable = isinstance(translate(error, safe=True), Unavailable)
            return Health.SILENT if retryable else Health.WELL
        self._note_term(answer.header.raft_term)
        return Health.WELL

    def _note_term(self, raft_term: int) -> None:
        before, self.raft_term = self.raft_term, max(self.raft_term, raft_term)
        if before and self.raft_term > before:
            self.leader.forget()
            self._elects()

    def begin_anew(self) -> None:
        """Forget the Raft term: an etcd that was restored from a backup counts its terms anew."""
        self.raft_term = 0

    def reached(self, reached: bool) -> None:
        """Do nothing: calls fail if no member answers."""

    async def move(self, endpoint: str, to: str) -> None:
        """Switch from one member to another; calls and watches on the former fail."""
        _log.warning("Leaving a member of etcd without an answer", member=endpoint, to=to)
        index = self.options.endpoints.index(endpoint)
        connection, self.connections[index] = self.connections[index], None
        if index == self.position:
            self.position = self.options.endpoints.index(to)
        self.leader.pause()
        if connection is not None:
            connection.silent = True
            await connection.channel.close()

    def leave(self, connection: Connection) -> None:
        """Switch to the next endpoint, unless another call already has; its watches end."""
        if self.connections[self.position] is connection and len(self.connections) > 1:
            self.use((self.position + 1) % len(self.connections))
        if self._files.changed(keeps_certificates(_log)):
            # They stay open for their current calls and watches.
            self._outdated += [known for known in self.connections if known is not None]
            self.connections = [None] * len(self.connections)

    def use(self, index: int) -> None:
        """Use another member from now on; watches on the one before end."""
        self.leader.forget()
        before, self.position = self.connections[self.position], index
        if before is not None:
            # Only the member in use is checked: a watch on another one may be silent unnoticed.
            watches, before.watches = before.watches, set()
            for watch in watches:
                watch.cancel()

    def backoff(self) -> Backoff:
        """Return a new backoff for a call's retries; the first round of endpoints has no pauses."""
        rest = len(self.connections) - 1
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
            if len(self.connections) > 1:
                # The kernel still accepts connections for a member that stands still.
                dial = min(dial, FIRST_DIAL * 2 ** (tried // len(self.connections)))
            if await connection.ready(min(dial, max(left, 0.001))):
                return connection
            tried += 1
            self.leave(connection)
            delay = backoff.next_delay()
            if loop.time() + delay >= deadline:
                names = ", ".join(self.options.endpoints)
                raise Unavailable(f"no etcd endpoint of {names} can be reached")
            await asyncio.sleep(delay)

    def _check_open(self) -> None:
        if self.closed:
            raise Closed("the store is closed")

    async def call(
        self, method: Callable[[Connection], Any], request: Any, *, safe: bool
    ) -> tuple[Any, Connection]:
        """Make a unary call; return the answer and the connection used. Raises StoreError.

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
                timeout = min(timeout, self.options.request_timeout / len(self.connections))
            try:
                with connection.failing():
                    metadata = await self.token.metadata(connection)
                    call = method(connection)
                    answer = await call(request, timeout=timeout, metadata=metadata)
                self._note_term(answer.header.raft_term)
                return answer, connection
            except grpc.aio.AioRpcError as error:
                if is_stale_token(error) and not authenticated_anew and self.token.forget():
                    authenticated_anew = True
                    continue
                fault = translate(error, safe=safe)
                if fault.retryable or fault.outcome_unknown:
                    self.leave(connection)
                delay = backoff.next_delay()
                if not fault.retryable or loop.time() + delay >= deadline:
                    raise fault from error
            except (asyncio.CancelledError, grpc.aio.UsageError):
                self._check_open()  # closing the channels cancels the calls on them
                raise
            await asyncio.sleep(delay)

    async def close(self) -> None:
        """Close all connections; calls on them end with ``Closed``."""
        self.closed = True
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for connection in (*self._outdated, *self.connections):
            if connection is not None:
                await connection.channel.close()
