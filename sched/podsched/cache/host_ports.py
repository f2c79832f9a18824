"""Host ports in use on each node, and the host ports that a pod requests.

Kept in dictionaries and not in columns, because few pods request a host port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

#: (hostIP, protocol, hostPort)
Port = tuple[str, str, int]

_NO_PORTS: Final[Mapping[Port, int]] = {}


def host_ports(spec: v1.PodSpec) -> Iterator[Port]:
    """Yield the host ports of containers and sidecars; no IP is 0.0.0.0, no protocol is TCP."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port


class PortsInUse:
    """Per row, how many pods use each port."""

    def __init__(self) -> None:
        self._used: dict[int, dict[Port, int]] = {}
        self._rows: Rows | None = None

    def copy(self) -> PortsInUse:
        """Return an independent copy."""
        made = PortsInUse()
        made._used = {row: dict(used) for row, used in self._used.items()}
        return made

    def add(self, row: int, ports: Iterable[Port]) -> None:
        """Count one more pod with these ports on the row."""
        used = self._used.get(row)
        if used is None:
            used = self._used[row] = {}
            self._rows = None
        for port in ports:
            used[port] = used.get(port, 0) + 1

    def remove(self, row: int, ports: Iterable[Port]) -> None:
        """Count one pod fewer with these ports on the row."""
        used = self._used[row]
        for port in ports:
            if used[port] == 1:
                del used[port]
            else:
                used[port] -= 1
        if not used:
            del self._used[row]
            self._rows = None

    def on(self, row: int) -> Mapping[Port, int]:
        """Return the ports in use on the row, with the number of pods."""
        return self._used.get(row, _NO_PORTS)

    @property
    def rows(self) -> Rows:
        """The rows with a port in use, ascending."""
        if self._rows is None:
            self._rows = np.array(sorted(self._used), dtype=np.intp)
        return self._rows
