"""Connections between replicas, which show a standby at once that the leader is gone.

Every replica runs a ``PeerListener``: a TCP listener that sends the replica's identity and then
holds the connection open in silence. A standby holds a connection to the leader. When a process
dies its kernel resets its connections and refuses new ones; both reach the standby within
milliseconds.

Guarantee: a break is reported as confirmed only if the replica of this identity was connected at
this address before, and the address now refuses connections. After a pause, a network failure or a
power failure nothing is refused; the liveness key and the lease detect these. A replica that
announces its exit is not reported: it has released the lock, so a claim that expects the dead
leader's record would be refused and lose time.
With TLS both sides must have a certificate of the same user, so that others can neither learn an
identity nor impersonate a leader. Without TLS a false report costs only a change of the term,
because writes are fenced.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections.abc import Callable
from enum import Enum
from functools import partial

from podsched.lib.backoff import Backoff
from podsched.lib.certificate_error import CertificateError
from podsched.lib.listening import Connection, Listener
from podsched.lib.network import is_ip_address, reachable_host
from podsched.lib.tls_contexts import ConnectingContext, ServingContext, TlsFiles, user_of
from podsched.telemetry.logs import get_logger, keeps_certificates

_log = get_logger("election")

#: Seconds to wait for a connection and for the identity.
_PATIENCE = 1.0
#: Seconds between tries. The first are quick, because a dying process may still accept connections
#: while its kernel closes its sockets one after another.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 2.0
#: Seconds below which a connection is short. From the second in a row on, a pause follows.
_SHORT = 2.0
_LONGEST_IDENTITY = 512
_LEAVE = b"released\n"
#: Max open connections: half of them, which one address may have, are more than a lock has
#: replicas.
_MOST_CONNECTIONS = 512


class PeerTls:
    """Certificates of this replica, for both sides of a connection.

    Replicas change hosts, so the host names of certificates are not checked, but their user, which
    is the same for all replicas.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Raise CertificateError for files that cannot be used on both sides."""
        from podsched.lib.certificates import user_in

        certificate = files.latest().pems.certificate
        if not files.authorities or certificate is None:
            raise CertificateError("peers need authorities, a certificate and its key")
        self._user = user_in(certificate)
        keep = keeps_certificates(_log)
        self.serving = ServingContext(files, keep, demand=True).context
        self._connecting = ConnectingContext(files, keep, any_host=True)

    def connecting(self) -> ssl.SSLContext:
        """Return the context for the next connection to a peer."""
        return self._connecting.latest()

    def is_replica(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether the peer has a certificate of this replica's user."""
        return user_of(transport) == self._user


class PeerListener:
    """Accepts the connections of other replicas while this process lives."""

    def __init__(self, identity: str, tls: PeerTls | None = None) -> None:
        self.greeting = identity.encode() + b"\n"
        self.tls = tls
        self.peers: set[asyncio.Transport] = set()
        serving = tls.serving if tls else None
        self._listener = Listener(
            lambda: _Peer(self), _MOST_CONNECTIONS, serving, math.inf, greets=True
        )

    async def start(self, host: str, port: int) -> int:
        """Listen, on a free port if ``port`` is 0; return the port. Raises OSError."""
        await self._listener.start(host, port)
        return self._listener.port

    def close(self, *, released: bool = False) -> None:
        """Refuse new connections and close all; ``released``: announce the exit first."""
        self._listener.close()
        for peer in tuple(self.peers):
            if released:
                peer.write(_LEAVE)
            peer.close()


class _Peer(asyncio.Protocol):
    """The connection of another replica, in use until one of both goes."""

    def __init__(self, listener: PeerListener) -> None:
        self._listener = listener
        self._use = contextlib.ExitStack()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        listener = self._listener
        if listener.tls is not None and not listener.tls.is_replica(transport):
            transport.abort()
            return
        connection = transport.get_protocol()
        assert isinstance(connection, Connection)
        self._use.enter_context(connection.in_use())
        listener.peers.add(transport)
        self._use.callback(listener.peers.discard, transport)
        transport.write(listener.greeting)

    def connection_lost(self, exc: Exception | None) -> None:
        self._use.close()


class _Ending(Enum):
    """How one connection ended."""

    BROKEN = "the peer sent its identity, then the connection broke"
    LEFT = "the peer sent its identity, then announced its exit"
    REFUSED = "the address refuses connections"
    FAILED = "otherwise"


async def follow_leader(
    address: str,
    identity: str,
    report: Callable[[bool], None],
    *,
    chance: Callable[[], float],
    tls: PeerTls | None = None,
) -> None:
    """Hold a connection to the replica of this identity until cancelled.

    After a broken connection report(confirmed) is called with True whenever the address refuses
    another one, and with False when the replica answers again. While the address cannot be reached,
    nothing is reported. Returns when the replica announces its exit.
    """
    broken, short = False, 0
    clock = asyncio.get_running_loop().time
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, chance)
    while True:
        back = partial(report, False) if broken else None
        began = clock()
        ending = await _connect_once(address, identity, back, tls)
        if ending is _Ending.BROKEN:
            broken = True
            short = short + 1 if clock() - began < _SHORT else 0
            # Without a pause: a dead process refuses connections within milliseconds. But something
            # in between may greet for a leader that lives, and break each connection.
            if short < 2:
                backoff.reset()
                continue
        if ending is _Ending.LEFT:
            return
        if ending is _Ending.REFUSED and broken:
            # Again and again: the first claim is refused if the replica renewed the lock just
            # before it died, and without another report only the lease's end permits the next.
            report(True)
        await asyncio.sleep(backoff.next_delay())


async def _connect_once(
    address: str, identity: str, back: Callable[[], None] | None, tls: PeerTls | None
) -> _Ending:
    """Hold one connection until it ends; back() is called when the replica answers."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(
                host.strip("[]"),
                int(port),
                ssl=tls.connecting() if tls else None,
                ssl_shutdown_timeout=_PATIENCE if tls else None,
            )
    except ConnectionRefusedError:
        return _Ending.REFUSED
    except (OSError, ValueError, OverflowError):  # TimeoutError is an OSError
        # The address comes from the record, so it may be invalid.
        return _Ending.FAILED
    try:
        if tls is not None and not tls.is_replica(writer.transport):
            return _Ending.FAILED
        async with asyncio.timeout(_PATIENCE):
            greeting = await reader.readuntil(b"\n")
        if greeting[:_LONGEST_IDENTITY].rstrip(b"\n") != identity.encode():
            return _Ending.FAILED
        if back is not None:
            back()
        said = b""
        with contextlib.suppress(OSError):
            while some := await reader.read(64):
                said = (said + some)[-len(_LEAVE) :]
        return _Ending.LEFT if said == _LEAVE else _Ending.BROKEN
    except (OSError, EOFError, asyncio.LimitOverrunError):
        return _Ending.FAILED
    finally:
        writer.close()


def advertised_address(listen_host: str, port: int, advertise: str) -> str:
    """Return the "host:port" for the record; ``advertise`` overrides the bound host and port."""
    host, _, advertised_port = advertise.rpartition(":")
    if not host or is_ip_address(advertise.strip("[]")):  # "host" alone, or nothing
        host, advertised_port = advertise, ""
    return f"{host or reachable_host(listen_host)}:{advertised_port or port}"
