"""How to reach etcd, and a connection to one of its members."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from aetcd.rpc import rpc_pb2, rpc_pb2_grpc

from podsched.config.flags import flag
from podsched.lib.certificate_files import Pems
from podsched.lib.server_health import SILENCE
from podsched.serve.silent_server import failing
from podsched.serve.store.errors import InvalidRequest

_SETTINGS: Final = (
    ("grpc.max_receive_message_length", -1),  # lists of everything are large
    ("grpc.max_send_message_length", -1),  # etcd decides what is too large
    # Silence before a probe, of which etcd refuses less than 5 s, and the most until its answer.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # 0: no limit, since an idle watch is to be probed, too.
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC's own 1 s to 2 min would keep a member that is back unused for so long.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # gRPC takes it for the time that an attempt to connect has. With 50 ms, processes ended while
    # they started on a busy machine: no member of etcd could be reached in 5 s.
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Do not share connections, and so failures, with other stores of this process.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """How to reach etcd. Times are seconds.

    endpoints: ``host:port`` or ``http(s)://host:port``, in the order in which they are tried.
    cert, key: for etcd's --client-cert-auth.
    username, password: for etcd's authentication; the token is renewed as needed.
    dial_timeout: the most for an endpoint to accept a connection (see ``endpoints.FIRST_DIAL``).
    request_timeout: for a call with all its retries. 5 s is etcd's own limit.
    silence: seconds without an answer to small reads after which another member is used; 0: off.
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
    silence: float = SILENCE


class Connection:
    """The gRPC channel of one endpoint, and etcd's services on it; creating it does no I/O."""

    def __init__(self, endpoint: str, options: EtcdOptions, pems: Pems) -> None:
        secure, target = _parse(endpoint)
        if secure or options.ca:
            credentials = grpc.ssl_channel_credentials(pems.authorities, pems.key, pems.certificate)
            self.channel = grpc.aio.secure_channel(target, credentials, options=_SETTINGS)
        else:
            self.channel = grpc.aio.insecure_channel(target, options=_SETTINGS)
        self.endpoint = endpoint
        self.silent = False
        """Whether it was closed because the member did not answer."""
        self.watches: set[Any] = set()
        """The open streams of watches on it."""
        self.authenticating = asyncio.Lock()
        """Held while a token is requested on it."""
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


def _parse(endpoint: str) -> tuple[bool, str]:
    secure = endpoint.startswith("https://")
    target = endpoint.removeprefix("https://").removeprefix("http://").rstrip("/")
    if not target:
        raise InvalidRequest(f"not an etcd endpoint: {endpoint!r}")
    return secure, target if ":" in target.rpartition("]")[2] else f"{target}:2379"
