"""The nodes of the heat map: allocatable amounts, requests, and the changes still to send.

A node is sent once with its name, and then with its number and its requests. Zones and allocatable
amounts (a *shape*), which many nodes share, are sent once and referred to by index. Resources are
columns: cpu, memory and pods first, then others in the order of their appearance, up to
``MOST_RESOURCES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsched.api.resources import CPU, MEMORY, PODS
from podsched.ask.web.rows import MOST_AMOUNT, NodeRow

#: Max columns; the page does not show further resources.
MOST_RESOURCES = 16


class NodeTable:
    """The nodes by number."""

    def __init__(self) -> None:
        self.resources = [CPU, MEMORY, PODS]
        #: Zones and shapes with their indices, in the order in which they are sent.
        self._zones: dict[str, int] = {}
        self._shapes: dict[tuple[int, ...], int] = {}
        #: Number of nodes that take pods: ready, and not cordoned.
        self.usable = 0
        self._rows: dict[str, NodeRow] = {}
        self._numbers: dict[str, int] = {}
        self._next = 0
        self._used: dict[str, dict[str, int]] = {}
        self._new: set[str] = set()
        self._used_anew: set[str] = set()
        self._gone: list[int] = []
        #: Numbers of zones and shapes that have been sent.
        self._sent = (0, 0)
        #: Whether browsers have to start over, because the columns have changed.
        self.broken = False

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, row: NodeRow) -> None:
        """Add or replace a node."""
        before = self._rows.get(row.name)
        if before == row:
            return
        self.usable += row.usable - (before is not None and before.usable)
        for resource in row.allocatable:
            if resource not in self.resources and len(self.resources) < MOST_RESOURCES:
                self.resources.append(resource)
                self.broken = True
        self._rows[row.name] = row
        if row.name not in self._numbers:
            self._numbers[row.name] = self._next
            self._next += 1
        self._new.add(row.name)

    def remove(self, name: str) -> None:
        """Forget a node."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self.usable -= row.usable
        self._gone.append(self._numbers.pop(name))
        self._new.discard(name)
        self._used_anew.discard(name)

    def take(self, name: str, amounts: Mapping[str, int], sign: int) -> None:
        """Add requests to a node, or subtract them (sign -1); the node may be unknown yet."""
        used = self._used.setdefault(name, {})
        for resource, amount in amounts.items():
            used[resource] = used.get(resource, 0) + sign * amount
        if not used.get(PODS):
            del self._used[name]
        if name in self._rows:
            self._used_anew.add(name)

    def whole(self) -> dict[str, Any]:
        """Return all nodes, including changes that ``difference`` has not returned yet."""
        return {
            "resources": self.resources,
            "nodes": [self._full(name) for name in self._rows],
            "zones": list(self._zones),
            "shapes": [*map(list, self._shapes)],
        }

    def difference(self) -> dict[str, Any]:
        """Return what has changed since the last call; empty if nothing has."""
        zones, shapes = self._sent
        use = [[self._numbers[name], *self._amounts(name)] for name in self._used_anew - self._new]
        found = {
            "nodes": [self._full(name) for name in self._new],
            "use": use,
            "gone": self._gone,
            "zones": list(self._zones)[zones:],
            "shapes": [*map(list, self._shapes)][shapes:],
        }
        self._new, self._used_anew, self._gone, self.broken = set(), set(), [], False
        self._sent = len(self._zones), len(self._shapes)
        return {name: rows for name, rows in found.items() if rows}

    def _full(self, name: str) -> list[Any]:
        row = self._rows[name]
        zone = self._zones.setdefault(row.zone, len(self._zones))
        amounts = tuple(row.allocatable.get(resource, 0) for resource in self.resources)
        shape = self._shapes.setdefault(amounts, len(self._shapes))
        return [self._numbers[name], name, zone, shape, row.state, *self._amounts(name)]

    def _amounts(self, name: str) -> list[int]:
        used = self._used.get(name)
        if not used:
            return []
        amounts = [min(used.get(resource, 0), MOST_AMOUNT) for resource in self.resources]
        while amounts and not amounts[-1]:
            amounts.pop()
        return amounts
