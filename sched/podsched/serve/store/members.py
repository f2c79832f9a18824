"""The members of etcd: the connection to each, and which of them is used."""

from __future__ import annotations

import asyncio
import math

from podsched.lib.certificate_files import CertificateFiles
from podsched.lib.server_health import STAY
from podsched.serve.store.connection import Connection, EtcdOptions
from podsched.serve.store.errors import InvalidRequest
from podsched.telemetry.logs import get_logger, keeps_certificates

_log = get_logger("etcd")


class Members:
    """Creates the connections; none does I/O before it is used."""

    def __init__(self, options: EtcdOptions) -> None:
        """Raise InvalidRequest without endpoints, CertificateError for unusable files."""
        if not options.endpoints:
            raise InvalidRequest("no etcd endpoints given")
        self.endpoints = options.endpoints
        self._options = options
        names = (str(path) if path else "" for path in (options.ca, options.cert, options.key))
        self._files = CertificateFiles(*names)
        self._outdated: list[Connection] = []
        #: Until when (monotonic) each member counts as silent.
        self._silent_until = [-math.inf] * len(options.endpoints)
        self.connections: list[Connection | None] = [None] * len(options.endpoints)
        """The connection of each member; None before the first use."""
        self.position = 0
        """The index of the member in use."""
        self.changes = 0
        """How often another connection has come into use."""

    def __len__(self) -> int:
        return len(self.endpoints)

    @property
    def endpoint(self) -> str:
        """The member in use."""
        return self.endpoints[self.position]

    def connection_to(self, index: int) -> Connection:
        """Return the connection of a member."""
        connection = self.connections[index]
        if connection is None:
            connection = Connection(self.endpoints[index], self._options, self._files.pems)
            self.connections[index] = connection
        return connection

    def leave(self, connection: Connection) -> None:
        """Switch to the next member, unless another call already has; its watches end."""
        if self.connections[self.position] is connection and len(self) > 1:
            self.use(self._next())
        if self._files.changed(keeps_certificates(_log)):
            # They stay open for their current calls and watches.
            self._outdated += [known for known in self.connections if known is not None]
            self.connections = [None] * len(self)
            self.changes += 1

    def _next(self) -> int:
        """Return the next member; one that was silent just now comes after all others.

        The kernel still accepts connections for a member that stands still: to find out again that
        it is silent took 0.6 s while etcd elected a leader.
        """
        now = asyncio.get_running_loop().time()
        others = [(self.position + step) % len(self) for step in range(1, len(self))]
        return min(others, key=lambda index: self._silent_until[index] > now)

    def use(self, index: int) -> None:
        """Use another member from now on; watches on the ones before end."""
        before, self.position = self.connections[self.position], index
        self.changes += 1
        for left in (before, *self._outdated):
            # Only the member in use is checked: a watch on another one may be silent unnoticed.
            for watch in (*left.watches,) if left else ():
                watch.cancel()

    async def close_silent(self, endpoint: str, to: str) -> None:
        """Use one member in place of another; calls and watches on the latter fail."""
        index = self.endpoints.index(endpoint)
        self._silent_until[index] = asyncio.get_running_loop().time() + STAY
        known, self.connections[index] = self.connections[index], None
        if index == self.position:
            self.position = self.endpoints.index(to)
            self.changes += 1
        silent = [each for each in (known, *self._outdated) if each and each.endpoint == endpoint]
        self._outdated = [each for each in self._outdated if each not in silent]
        for connection in silent:
            connection.silent = True
            await connection.channel.close()

    async def close(self) -> None:
        """Close all connections."""
        for connection in (*self._outdated, *self.connections):
            if connection is not None:
                await connection.channel.close()
