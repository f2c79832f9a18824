"""Count the pods that use each host port on each node.

Kept in dictionaries and not in columns, because few pods request a host port.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from podsched.api.host_ports import HostPort
from podsched.framework.verdicts import Rows

_NO_PORTS: Final[Mapping[HostPort, int]] = {}


class PortsInUse:
    """Per row, how many pods use each port."""

    def __init__(self) -> None:
        self._used: dict[int, dict[HostPort, int]] = {}
        self._rows: Rows | None = None

    def copy(self) -> PortsInUse:
        """Return an independent copy."""
        made = PortsInUse()
        made._used = {row: dict(used) for row, used in self._used.items()}
        return made

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Count one more pod with these ports on the row."""
        used = self._used.get(row)
        if used is None:
            used = self._used[row] = {}
            self._rows = None
        for port in ports:
            used[port] = used.get(port, 0) + 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
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

    def on(self, row: int) -> Mapping[HostPort, int]:
        """Return the ports in use on the row, with the number of pods."""
        return self._used.get(row, _NO_PORTS)

    @property
    def rows(self) -> Rows:
        """The rows with a port in use, ascending."""
        if self._rows is None:
            self._rows = np.array(sorted(self._used), dtype=np.intp)
        return self._rows


class ForkedPorts:
    """The ports in use on a fork's rows: its own counts where they changed, else the base's."""

    __slots__ = ("_base", "_own", "_rows")

    def __init__(self, base: PortsInUse, rows: Rows) -> None:
        self._base, self._rows = base, rows
        self._own: dict[int, dict[HostPort, int]] = {}

    def fork(self, rows: Rows, places: Mapping[int, Sequence[int]]) -> ForkedPorts:
        """Return the same for ``rows`` of the base; ``places``: the new numbers of rows here."""
        child = ForkedPorts(self._base, rows)
        child._own = {i: dict(self._own[row]) for row in self._own for i in places.get(row, ())}
        return child

    def add(self, row: int, ports: Iterable[HostPort], pods: int) -> None:
        """Count ``pods`` more pods (or fewer, when negative) with these ports on the row."""
        own = self._own.get(row)
        if own is None:
            own = self._own[row] = dict(self._base.on(int(self._rows[row])))
        for port in ports:
            own[port] = own.get(port, 0) + pods
            if not own[port]:
                del own[port]

    def on(self, row: int) -> Mapping[HostPort, int]:
        """Return the ports in use on the row, with the number of pods."""
        own = self._own.get(row)
        return self._base.on(int(self._rows[row])) if own is None else own

    @property
    def rows(self) -> Rows:
        """The rows with a port in use, ascending."""
        # ``on`` drops rows whose pods with ports were all removed here.
        maybe = {*np.flatnonzero(np.isin(self._rows, self._base.rows)).tolist(), *self._own}
        return np.array(sorted(filter(self.on, maybe)), dtype=np.intp)
