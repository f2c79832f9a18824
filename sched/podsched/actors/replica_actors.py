"""A replica's use of Ray: the connection, made ahead of time in standby, and its terms' actors."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from podsched.actors.ray_cluster import RayCluster, RayMetrics
from podsched.actors.term_actors import ActorOptions, TermActors, until_wanted, wants_ray
from podsched.cache.columns import Columns
from podsched.config.profiles import Profile
from podsched.telemetry.logs import get_logger
from podsched.term.writes.bind_queue import Binder

_log = get_logger("ray")

#: Leaving a dead cluster takes 5 s, which a process that was asked to stop does not wait for.
CLOSE_TIMEOUT = 2.0


class ReplicaActors:
    """``run`` beside everything else; ``of_term`` when leading begins; ``close`` in the end."""

    def __init__(self, options: ActorOptions, metrics: RayMetrics) -> None:
        self._options = options
        settings = options.settings
        self._cluster = RayCluster(settings.ray_address, settings.ray_retry_period, metrics)

    def use(self, profiles: Sequence[Profile]) -> None:
        """Evaluate with other profiles in the terms that begin from now on."""
        self._options = replace(self._options, profiles=profiles)

    async def load(self, nodes: int) -> None:
        """Import Ray where a cluster of so many nodes is evaluated with it.

        The import takes 0.5 s, in a fresh installation 10 s and more, most of it without letting
        other threads run: a leader that did it would miss its keep-alives and lose the lock.
        """
        if wants_ray(self._options.settings, nodes) and self._cluster.address:
            await asyncio.to_thread(importlib.import_module, "ray")

    async def run(self, nodes: Callable[[], int]) -> None:
        """Join Ray once there are nodes enough for it; return at once where it is not used."""
        settings = self._options.settings
        if settings.evaluator == "local":
            return
        if not self._cluster.address:
            if settings.evaluator == "ray":
                _log.warning("No address of a Ray cluster is given: nodes are evaluated locally")
            return
        await until_wanted(settings, nodes)
        await self._cluster.run()

    def of_term(self, term: int, columns: Columns, direct: Binder) -> TermActors:
        """Return the actors of a term; the caller runs them until the term is over."""
        return TermActors(self._cluster, self._options, term, columns, direct)

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._cluster.close()
