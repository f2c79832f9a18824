"""A relay on every link between two processes, so that links can be broken and delayed."""

from __future__ import annotations

import random

from podsched.lib.relay import Relay
from podsched.lib.tasks import TaskSet

#: Sources of links beside processes: the clients, and replicas on their way to another one.
CLIENT, PEERS = "client", "peers"


class Links:
    """The relays, by source and target."""

    def __init__(self, tasks: TaskSet, seed: int, hub: str) -> None:
        """``hub``: the host on which replicas in network namespaces reach the relays, "" without.

        ``tasks``: for the relays.
        """
        self._tasks = tasks
        self._chance = random.Random(seed)
        self._hub = hub
        self._relays: dict[tuple[str, str], Relay] = {}

    def relay(self, source: str, target: str, address: str) -> Relay:
        """Return the relay from a source to a target, which listens at an address."""
        known = self._relays.get((source, target))
        if known is None:
            apart = self._hub and source.startswith(("scheduler", PEERS))
            host = self._hub if apart else "127.0.0.1"
            known = Relay(address, self._tasks, self._chance.random, host)
            self._relays[source, target] = known
        return known

    def between(self, source: str, target: str) -> list[Relay]:
        """Return the relays between processes whose names begin with these prefixes."""
        return [
            relay
            for (known_source, known_target), relay in self._relays.items()
            if known_source.startswith(source) and known_target.startswith(target)
        ]

    def close(self) -> None:
        for relay in self._relays.values():
            relay.close()
