"""Connects to one of etcd's members, preferably its leader, and fails over to the next one.

Every member serves the whole cluster, so one connection at a time is enough. Each endpoint has its
own gRPC channel, because one channel with a list of addresses would stay with a member that is
reachable but partitioned from its peers ("no leader").

A write that a follower has forwarded is lost without an answer if the leader dies, and its caller
waits for the request timeout. A broken connection to the leader itself is noticed at once. So the
leader is preferred, and when it is not known, for example during an election, writes wait for it.

A member that does not answer small reads is left, and its channel closed, if another one answers
(``lib.server_health``).

Guarantee: a call that fails with ``Unavailable`` has not been applied. Calls that change something
are sent only on a ready connection, and at most once.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from aetcd.rpc import rpc_pb2, rpc_pb2_grpc

from podsched.api.etcd_keys import SYNC
from podsched.config.flags import flag
from podsched.lib.backoff import Backoff
from podsched.lib.certificate_files import CertificateFiles, Pems
from podsched.lib.server_health import SILENCE, STAY, Health, leave_silent_servers
from podsched.serve.silent_server import failing
from podsched.serve.store.errors import Closed, InvalidRequest, StoreError, Unavailable
from podsched.serve.store.translate import is_auth_disabled, is_stale_token, translate
from podsched.telemetry.logs import get_logger, keeps_certificates

_log = get_logger("etcd")

#: Seconds of pause after all endpoints were tried: first, and max.
RETRY_FIRST, RETRY_MOST = 0.05, 1.0
#: Seconds for a member to accept a connection before another one is tried; doubled each time that
#: all were tried.
FIRST_DIAL = 0.3
#: Seconds between two looks for etcd's leader, and for a member to say whether it is.
LEADER_PERIOD, LEADER_ANSWER = 1.0, 0.2
#: Max seconds for which writes wait until a member says that it leads, and seconds between two
#: questions. After that they go to any member, and wait for no leader for ``LEADER_UNKNOWN``
#: seconds: a proxy may hide it.
LEADER_WAIT, LEADER_PAUSE, LEADER_UNKNOWN = 2.0, 0.05, 10.0


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """How to reach etcd. Times are seconds.

    endpoints: ``host:port`` or ``http(s)://host:port``, in the order in which they are tried.
    cert, key: for etcd's --client-cert-auth.
    username, password: for etcd's authentication; the token is renewed as needed.
    dial_timeout: the most for an endpoint to accept a connection (see FIRST_DIAL).
    request_timeout: for a call with all its retries. 5 s is etcd's own limit.
    keepalive_time: silence after which the connection is probed; etcd refuses less than 5 s.
    keepalive_timeout: time after which an unanswered probe breaks the connection.
    silence: seconds without an answer to small reads after which another member is used; 0: off.
    max_txn_ops, max_request_bytes: etcd's flags of the same names; lower values are safe, too.
    """

    endpoints: tuple[str, ...] = flag(
        ("127.0.0.1:2379",),
        "HOST:PORT[,...]",
        "etcd",
        names="--etcd-endpoints",
        envvar="SCHED_ETCD_ENDPOINTS",
    )
    """Addresses of the etcd members."""
    ca: Path | None = flag(None, "FILE", "etcd", names="--etcd-ca")
    """CA certificates to verify etcd's certificate with; turns on TLS."""
    cert: Path | None = flag(None, "FILE", "etcd", names="--etcd-cert")
    """Client certificate for etcd."""
    key: Path | None = flag(None, "FILE", "etcd", names="--etcd-key")
    """Private key of --etcd-cert."""
    username: str | None = flag(
        None, "NAME", "etcd", names="--etcd-username", envvar="SCHED_ETCD_USERNAME"
    )
    """etcd user; the password is read from SCHED_ETCD_PASSWORD."""
    password: str | None = None
    dial_timeout: float = 2.0
    request_timeout: float = 5.0
    keepalive_time: float = 10.0
    keepalive_timeout: float = 5.0
    silence: float = SILENCE
    max_txn_ops: int = 128
    max_request_bytes: int = 1_500_000


class Connection:
    """The gRPC channel of one endpoint, and etcd's services on it; creating it does no I/O."""

    def __init__(self, endpoint: str, options: EtcdOptions, pems: Pems) -> None:
        secure, target = _parse(endpoint)
        settings = _channel_settings(options)
        if secure or options.ca:
            credentials = grpc.ssl_channel_credentials(pems.authorities, pems.key, pems.certificate)
            self.channel = grpc.aio.secure_channel(target, credentials, options=settings)
        else:
            self.channel = grpc.aio.insecure_channel(target, options=settings)
        self.endpoint = endpoint
        self.silent = False
        """Whether it was closed because the member did not answer."""
        self.watches: set[Any] = set()
        """The streams of watches on it, until the connection is left."""
        self.kv = rpc_pb2_grpc.KVStub(self.channel)
        self.watch = rpc_pb2_grpc.WatchStub(self.channel)
        self.lease = rpc_pb2_grpc.LeaseStub(self.channel)
        self.maintenance = rpc_pb2_grpc.MaintenanceStub(self.channel)
        self.auth = rpc_pb2_grpc.AuthStub(self.channel)
        # The same call as kv.Txn, but with a request that is encoded already.
        self.txn_encoded = self.channel.unary_unary(
            "/etcdserverpb.KV/Txn", response_deserializer=rpc_pb2.TxnResponse.FromString
        )

    def failing(self) -> AbstractContextManager[None]:
        """Raise AioRpcError where calls end because the member did not answer."""
        return failing(lambda: self.silent)

    async def write_first(self, stream: Any, request: Any) -> None:
        """Write the first request of a stream; return also if the stream ends: reading says why.

        gRPC's ``write`` alone would never return if the stream is cancelled, or its channel closed,
        before the call is sent, for example while the channel connects (seen with 1.85).
        """
        writing = asyncio.ensure_future(stream.write(request))
        stream.add_done_callback(lambda _: writing.cancel())
        try:
            await writing
        except (asyncio.CancelledError, asyncio.InvalidStateError):
            task = asyncio.current_task()
            if task is None or task.cancelling() or not stream.done():
                raise

    async def ready(self, timeout: float) -> bool:
        """Connect if needed, within ``timeout`` seconds; return whether it is connected."""
        ready = grpc.ChannelConnectivity.READY
        state = self.channel.get_state(try_to_connect=True)
        if state is ready:
            return True
        try:
            async with asyncio.timeout(timeout):
                while state is not ready:
                    if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                        return False
                    await self.channel.wait_for_state_change(state)
                    state = self.channel.get_state(try_to_connect=True)
        except (TimeoutError, grpc.aio.UsageError):  # UsageError: the channel was closed
            return False
        return True


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
        self._connections: list[Connection | None] = [None] * len(options.endpoints)
        self._current = 0
        self._token: str | None = None
        self._authenticating = asyncio.Lock()
        self._watching: tuple[asyncio.Task[None], ...] = ()
        self._moved_at = -math.inf
        #: The connection whose member said last that it leads, unless something has changed since.
        self._leader: Connection | None = None
        self._finding = asyncio.Lock()
        self._waits_from = -math.inf
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
                asyncio.create_task(self._follow_leader(), name="etcd's leader"),
            )
        return self._connection(self._current)

    def _connection(self, index: int) -> Connection:
        connection = self._connections[index]
        if connection is None:
            endpoint = self.options.endpoints[index]
            connection = Connection(endpoint, self.options, self._files.pems)
            self._connections[index] = connection
        return connection

    @property
    def endpoint(self) -> str:
        """The member in use."""
        return self.options.endpoints[self._current]

    @property
    def in_use(self) -> Sequence[str]:
        """The member in use: ``_use`` ends the watches on any other one."""
        return (self.endpoint,)

    @property
    def endpoints(self) -> Sequence[str]:
        """All members."""
        return self.options.endpoints

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return whether a member that has a leader answers within seconds."""
        connection = self._connection(self.options.endpoints.index(endpoint))
        request = rpc_pb2.RangeRequest(key=SYNC.encode(), serializable=True)
        try:
            async with asyncio.timeout(timeout):
                metadata = await self.metadata(connection)
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
            self._leader = None
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
        connection, self._connections[index] = self._connections[index], None
        if index == self._current:
            self._current = self.options.endpoints.index(to)
        self._moved_at = asyncio.get_running_loop().time()
        if connection is not None:
            connection.silent = True
            await connection.channel.close()

    def leave(self, connection: Connection) -> None:
        """Switch to the next endpoint, unless another call already has; its watches end."""
        if self._connections[self._current] is connection and len(self._connections) > 1:
            self._use((self._current + 1) % len(self._connections))
        if self._files.changed(keeps_certificates(_log)):
            # They stay open for their current calls and watches.
            self._outdated += [known for known in self._connections if known is not None]
            self._connections = [None] * len(self._connections)

    def _use(self, index: int) -> None:
        """Use another member from now on; watches on the one before end."""
        self._leader = None
        before, self._current = self._connections[self._current], index
        if before is not None:
            # Only the member in use is checked: a watch on another one may be silent unnoticed.
            watches, before.watches = before.watches, set()
            for watch in watches:
                watch.cancel()

    async def _follow_leader(self) -> None:
        """Use etcd's leader, whenever it answers, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LEADER_PERIOD)
            if clock() >= self._moved_at + STAY:
                await self._find_leader()

    async def _find_leader(self) -> bool:
        """Use the member that says that it leads; return False if none does."""
        if await self._leads(self._current):
            leader: int | None = self._current
        else:
            leader = await self._first_leader()
        if leader is None:
            return False
        if leader != self._current:
            self._use(leader)
        self._leader = self._connection(leader)
        return True

    async def _first_leader(self) -> int | None:
        """Return the member that is the first to say that it leads, if one does.

        All are asked at once, and none waits for the rest: a paused leader never answers, and each
        look for its successor would last ``LEADER_ANSWER``.
        """

        async def leading(index: int) -> int | None:
            return index if await self._leads(index) else None

        asked = [asyncio.ensure_future(leading(n)) for n in range(len(self._connections))]
        try:
            for answer in asyncio.as_completed(asked):
                if (leader := await answer) is not None:
                    return leader
        finally:
            for task in asked:
                task.cancel()
        return None

    async def _wait_for_leader(self, deadline: float) -> None:
        """Return once the member in use is the leader, as far as is known, or after a while."""
        clock = asyncio.get_running_loop().time
        if self._knows_leader() or clock() < self._waits_from:
            return
        until = min(clock() + LEADER_WAIT, deadline)
        async with self._finding:
            while not self._knows_leader() and not await self._find_leader():
                if clock() >= until:
                    self._waits_from = clock() + LEADER_UNKNOWN
                    return
                await asyncio.sleep(LEADER_PAUSE)

    def _knows_leader(self) -> bool:
        return len(self._connections) == 1 or (
            self._leader is not None and self._leader is self._connections[self._current]
        )

    async def _leads(self, index: int) -> bool:
        """Whether a member answers, and says that it leads."""
        connection = self._connection(index)
        try:
            with connection.failing():
                status = await connection.maintenance.Status(
                    rpc_pb2.StatusRequest(),
                    timeout=LEADER_ANSWER,
                    metadata=await self.metadata(connection),
                )
        except (StoreError, grpc.aio.AioRpcError, grpc.aio.UsageError):
            return False
        return bool(status.leader == status.header.member_id)

    def backoff(self) -> Backoff:
        """Return a new backoff for a call's retries; the first round of endpoints has no pauses."""
        rest = len(self._connections) - 1
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
            if len(self._connections) > 1:
                # The kernel still accepts connections for a member that stands still.
                dial = min(dial, FIRST_DIAL * 2 ** (tried // len(self._connections)))
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
                await self._wait_for_leader(deadline)
            connection = await self._connected_by(deadline)
            if not safe and not self._knows_leader() and loop.time() >= self._waits_from:
                continue  # The leader could not be reached after all.
            timeout = max(deadline - loop.time(), 0.001)
            if safe:  # leave time for the other endpoints if this one hangs
                timeout = min(timeout, self.options.request_timeout / len(self._connections))
            try:
                with connection.failing():
                    metadata = await self.metadata(connection)
                    call = method(connection)
                    answer = await call(request, timeout=timeout, metadata=metadata)
                self._note_term(answer.header.raft_term)
                return answer, connection
            except grpc.aio.AioRpcError as error:
                if is_stale_token(error) and self._token and not authenticated_anew:
                    self._token, authenticated_anew = None, True
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

    async def metadata(self, connection: Connection) -> tuple[tuple[str, str], ...]:
        """Return the metadata of calls, with the authentication token if there is one.

        "hasleader" makes a member without a leader refuse the call instead of keeping it waiting.
        """
        if self.options.username is None:
            return (("hasleader", "true"),)
        if self._token is None:
            async with self._authenticating:
                if self._token is None:
                    self._token = await self._authenticate(connection)
        if not self._token:
            return (("hasleader", "true"),)
        return (("hasleader", "true"), ("token", self._token))

    async def _authenticate(self, connection: Connection) -> str:
        """Return a token, "" if etcd does not require one."""
        request = rpc_pb2.AuthenticateRequest(
            name=self.options.username, password=self.options.password or ""
        )
        try:
            answer = await connection.auth.Authenticate(
                request, timeout=self.options.request_timeout
            )
        except grpc.aio.AioRpcError as error:
            if is_auth_disabled(error):
                return ""
            raise translate(error, safe=True) from error
        return str(answer.token)

    def forget_token(self) -> bool:
        """Drop the token, so that the next call authenticates again; return False without one."""
        had_one, self._token = bool(self._token), None
        return had_one

    async def close(self) -> None:
        """Close all connections; calls on them end with ``Closed``."""
        self.closed = True
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for connection in (*self._outdated, *self._connections):
            if connection is not None:
                await connection.channel.close()


def _parse(endpoint: str) -> tuple[bool, str]:
    secure = endpoint.startswith("https://")
    target = endpoint.removeprefix("https://").removeprefix("http://").rstrip("/")
    if not target:
        raise InvalidRequest(f"not an etcd endpoint: {endpoint!r}")
    return secure, target if ":" in target.rpartition("]")[2] else f"{target}:2379"


def _channel_settings(options: EtcdOptions) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", -1),  # lists of everything are large
        ("grpc.max_send_message_length", -1),  # etcd decides what is too large
        ("grpc.keepalive_time_ms", int(options.keepalive_time * 1000)),
        ("grpc.keepalive_timeout_ms", int(options.keepalive_timeout * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 1000),
        # Do not share connections, and so failures, with other stores of this process.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
    ]
