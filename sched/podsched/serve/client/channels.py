"""Manages the connections to several API servers: one is in use, the others are for failover.

If a server cannot be reached, the next endpoint in order is used. Failed servers are not
remembered, because gRPC reconnects with its own backoff. Streams and calls share the connection.

gRPC reconnects with the certificates with which a channel was created. So if the files have changed
when a call fails, new channels are opened.

With ``ClientOptions.silence``, a server that does not answer health checks is left, too
(``server_health``).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import grpc

from podsched.config.flags import flag
from podsched.lib.certificate_files import CertificateFiles
from podsched.lib.server_health import Health, leave_silent_servers
from podsched.serve.client.bearer_token import BearerToken, check_in_clear
from podsched.serve.client.server_health import ask
from podsched.serve.silent_server import failing
from podsched.telemetry.logs import get_logger, keeps_certificates

_log = get_logger("client")

MIB = 1 << 20
_TLS = "TLS to the API server"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How to reach the API servers."""

    timeout: float = 10.0
    """Max seconds of a call with its retries."""
    wait_for_server: bool = True
    """Whether a call waits, within its timeout, while all servers refuse connections."""
    watch_silence: float = 10.0
    """Seconds of silence after which a watch is broken; bookmarks come every second."""
    silence: float = 0.0
    """Seconds without an answer to health checks after which another server is used, if there is
    one that answers; 0: no health checks."""
    max_message_bytes: int = 64 * MIB
    """Largest response in bytes."""
    tls_ca: str = flag("", "FILE", _TLS, envvar="SCHED_TLS_CA")
    """CA certificates to verify the API server's certificate with; turns on TLS."""
    tls_cert: str = flag("", "FILE", _TLS, envvar="SCHED_TLS_CERT")
    """Client certificate for the API server."""
    tls_key: str = flag("", "FILE", _TLS, envvar="SCHED_TLS_KEY")
    """Private key of --tls-cert."""
    token_file: str = flag("", "FILE", _TLS, envvar="SCHED_TOKEN_FILE")
    """Bearer token for the API server, in place of a client certificate. Read again when it
    changes.

    Sent with every call, but only with TLS or on this machine.
    """
    traceparent: str = ""
    """W3C trace context that is sent with every call without its own; the call and the pods that it
    creates become part of that trace."""
    on_warning: Callable[[str], None] | None = None
    """Called with the server's warnings."""


class Channels:
    """The gRPC channels by endpoint, opened when first used.

    endpoints: "host:port", several separated by commas or as a sequence. Raises CertificateError
    for unusable TLS files or tokens, ValueError without an endpoint.
    """

    def __init__(self, endpoints: str | Sequence[str], options: ClientOptions) -> None:
        if isinstance(endpoints, str):
            endpoints = [part.strip() for part in endpoints.split(",")]
        self.endpoints = [endpoint for endpoint in endpoints if endpoint]
        if not self.endpoints:
            raise ValueError("at least one endpoint of an API server is needed")
        self._options = options
        self._channels: dict[str, grpc.aio.Channel] = {}
        #: Channels with earlier certificates and their endpoints, open for their current calls.
        self._outdated: list[tuple[str, grpc.aio.Channel]] = []
        self._silent: WeakSet[grpc.aio.Channel] = WeakSet()
        #: How many streams are open, by endpoint.
        self._streams = Counter[str]()
        self._watching: asyncio.Task[None] | None = None
        self._reached = True
        self.on_reachability: Callable[[bool], None] = lambda _: None
        """Called when no server answers to health checks any more, and when one does again."""
        tls = (options.tls_ca, options.tls_cert, options.tls_key)
        self._files = CertificateFiles(*tls) if options.tls_ca else None
        self.credentials: Callable[[], tuple[tuple[str, str], ...]] = tuple
        """Returns the metadata with the token; empty without one."""
        if options.token_file:
            token = BearerToken(options.token_file)
            self.credentials = lambda: (("authorization", f"Bearer {token.latest()}"),)
        if options.token_file and not options.tls_ca:
            for endpoint in self.endpoints:
                check_in_clear(endpoint)
        self._at = 0

    @property
    def endpoint(self) -> str:
        """The host:port of the server in use."""
        return self.endpoints[self._at]

    @property
    def in_use(self) -> Collection[str]:
        """The servers that calls or streams use: a stream outlives a switch after a failed call."""
        return {self.endpoint, *(+self._streams)}

    def opened(self, endpoint: str, stream: grpc.aio.Call) -> None:
        """Check the health of a stream's server until the stream ends."""
        self._streams[endpoint] += 1
        stream.add_done_callback(lambda _: self._streams.subtract((endpoint,)))

    def current(self) -> grpc.aio.Channel:
        """Return the channel in use."""
        silence = self._options.silence
        if silence and self._watching is None and len(self.endpoints) > 1:
            self._watching = asyncio.create_task(
                leave_silent_servers(self, silence), name="health of API servers"
            )
        return self._channel(self.endpoint)

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        channel = self._channels.get(endpoint)
        if channel is None:
            limit = _to_connect(self._options, len(self.endpoints))
            channel = _open(endpoint, self._options, self._files, limit)
            self._channels[endpoint] = channel
        return channel

    def leave(self, endpoint: str) -> None:
        """Switch to the next endpoint, unless ``endpoint`` is no longer in use."""
        # Another call may have switched already; a second switch could lead back to a bad server.
        if endpoint == self.endpoint:
            self._at = (self._at + 1) % len(self.endpoints)
        if self._files is not None and self._files.changed(keeps_certificates(_log)):
            self._outdated += self._channels.items()
            self._channels.clear()

    async def health(self, endpoint: str, timeout: float) -> Health:
        """Return what a server answers to a health check within seconds."""
        return await ask(self._channel(endpoint), timeout)

    def reached(self, reached: bool) -> None:
        """Note whether any server answers to health checks."""
        if reached != self._reached:
            self._reached = reached
            self.on_reachability(reached)

    async def move(self, endpoint: str, to: str) -> None:
        """Switch from one server to another; calls and streams on the former fail."""
        _log.warning("Leaving an API server without a good answer", server=endpoint, to=to)
        if endpoint == self.endpoint:
            self._at = self.endpoints.index(to)
        known = [*self._outdated, *self._channels.items()]
        self._outdated = [each for each in self._outdated if each[0] != endpoint]
        self._channels.pop(endpoint, None)
        for channel in (channel for name, channel in known if name == endpoint):
            self._silent.add(channel)
            await channel.close()

    def failing(self, channel: grpc.aio.Channel) -> AbstractContextManager[None]:
        """Raise AioRpcError where calls end because ``move`` has closed their channel."""
        return failing(lambda: channel in self._silent)

    async def close(self) -> None:
        """Close all connections."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        known = [*self._outdated, *self._channels.items()]
        self._channels, self._outdated = {}, []
        for _, channel in known:
            await channel.close()


def _to_connect(options: ClientOptions, servers: int) -> float:
    """Return the seconds for an attempt to connect.

    A busy server answers new connections late. A client that does not wait for servers asks each
    once, so its calls would fail then.
    """
    return 1.0 if options.wait_for_server else max(1.0, options.timeout / (2 * servers))


def _open(
    endpoint: str, options: ClientOptions, files: CertificateFiles | None, to_connect: float
) -> grpc.aio.Channel:
    settings: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", options.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        # gRPC also uses this as the min time for an attempt to connect.
        ("grpc.min_reconnect_backoff_ms", round(1000 * to_connect)),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.max_metadata_size", 64 << 10),
        # Otherwise all clients of a process would share one connection and its flow control.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if files is None:
        return grpc.aio.insecure_channel(endpoint, options=settings)
    pems = files.pems
    credentials = grpc.ssl_channel_credentials(pems.authorities, pems.key, pems.certificate)
    return grpc.aio.secure_channel(endpoint, credentials, options=settings)
