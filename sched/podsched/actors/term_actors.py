"""Start and keep the actors of a leader's term: evaluators for shards of the nodes, and binders.

Actors are found by name (``evaluator-<n>``, ``binder-<n>``), so that a new leader takes over its
predecessor's actors instead of starting processes. Deciding never waits until an actor is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from podsched.actors.binder_actor import ApiServers, BinderActor, RayBinder
from podsched.actors.evaluator_actor import EvaluatorActor
from podsched.actors.named_actor import NamedActor
from podsched.actors.ray_cluster import (
    RayCluster,
    RayMetrics,
    RayUnavailable,
    set_driver_environment,
)
from podsched.actors.ray_evaluator import RayDryRun, RayEvaluator
from podsched.actors.shard_sync import Shards, ShardSync
from podsched.cache.columns import Columns
from podsched.cache.delta_encoder import DeltaEncoder
from podsched.cache.deltas import shard_of
from podsched.config.profiles import Profile
from podsched.config.settings import EvaluatorSettings
from podsched.serve.client.channels import ClientOptions
from podsched.telemetry.logs import get_logger
from podsched.term.writes.bind_queue import Binder

_log = get_logger("ray")

#: Max shards, however many CPUs there are, because the leader alone merges their results.
MAX_SHARDS = 16
#: Two, so that a batch can go to one while the other is still binding.
BINDERS = 2
#: Number of nodes in one preemption dry run from which auto uses Ray; ray always does. Locally and
#: with Ray, dry runs took at best, with 4 pods per node, 3 and 10 ms for 100 nodes, 11 and 17 ms
#: for 500, 30 and 22 ms for 1,000, 290 and 160 ms for 5,000; with 20 pods per node, 8 and 12, 40
#: and 27, 98 and 76, 630 and 310 ms (2 shards on 2 busy cores).
DRY_RUNS_FROM = 1_000
#: Seconds between checks whether actors are ready.
LOOK_PERIOD = 0.2


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """The options of actors; binders connect to ``api_endpoints`` with the options ``client``."""

    settings: EvaluatorSettings
    profiles: Sequence[Profile]
    api_endpoints: tuple[str, ...]
    otlp_endpoint: str = ""
    client: ClientOptions = field(default_factory=ClientOptions)


def wants_ray(settings: EvaluatorSettings, nodes: int) -> bool:
    """Whether a cluster with this number of nodes is evaluated with Ray."""
    if settings.evaluator == "auto":
        return nodes >= settings.ray_from_nodes
    return settings.evaluator == "ray"


async def until_wanted(settings: EvaluatorSettings, nodes: Callable[[], int]) -> None:
    """Return when the cluster is large enough for Ray, which may be never."""
    while True:
        if wants_ray(settings, nodes()):
            return
        await asyncio.sleep(settings.ray_retry_period)


class TermActors:
    """The actors of one term.

    ``evaluator``, ``dry_run`` and ``binder`` can be used at any time, also without Ray.
    ``binders``: the actors that ``binder`` calls; empty if it binds directly.
    """

    def __init__(
        self,
        cluster: RayCluster,
        options: ActorOptions,
        term: int,
        columns: Columns,
        direct: Binder,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._term = term
        self._columns = columns
        settings = options.settings
        self.shards = Shards()
        self.evaluator = RayEvaluator(self.shards, settings.ray_call_timeout, cluster.metrics)
        self.dry_run = RayDryRun(
            self.shards,
            1 if settings.evaluator == "ray" else DRY_RUNS_FROM,
            settings.ray_call_timeout,
        )
        self.binders = self._make_binders()
        self.binder: Binder = RayBinder(self.binders, direct) if self.binders else direct

    async def run(self) -> None:
        """Create the actors once the cluster is large enough, and keep them until cancelled."""
        await until_wanted(self._options.settings, lambda: len(self._columns.node_table))
        await self._cluster.joined.wait()
        self.shards.all = self._make_shards()
        try:
            async with asyncio.TaskGroup() as group:
                for shard in self.shards.all:
                    group.create_task(shard.run(), name="keep a shard current")
                for binder in self.binders:
                    group.create_task(self._keep(binder), name="keep a binder")
                group.create_task(self._watch_mode(), name="watch the evaluator")
        finally:
            # A metric shows the mode, also of a standby.
            self.shards.all = []
            self.evaluator.update_mode()

    async def _watch_mode(self) -> None:
        while True:
            self.evaluator.update_mode()
            await asyncio.sleep(LOOK_PERIOD)

    def _make_shards(self) -> list[ShardSync]:
        settings = self._options.settings
        shards = settings.shards or min(self._cluster.cpus, MAX_SHARDS)
        return [self._make_shard(shard, shards) for shard in range(shards)]

    def _make_shard(self, shard: int, shards: int) -> ShardSync:
        name = f"evaluator-{shard}"
        arguments = (name, tuple(self._options.profiles), self._options.otlp_endpoint)
        actor = NamedActor(self._cluster, name, EvaluatorActor, arguments, self._term)
        encoder = DeltaEncoder(self._columns, lambda node: shard_of(node, shards) == shard)
        return ShardSync(self._cluster, actor, encoder, self._options.settings.ray_retry_period)

    def _make_binders(self) -> list[NamedActor]:
        settings = self._options.settings
        if settings.binder == "direct" or settings.evaluator == "local":
            return []
        servers = ApiServers(self._options.api_endpoints, self._options.client)
        return [
            NamedActor(
                self._cluster, f"binder-{number}", BinderActor, (), self._term, handshake=(servers,)
            )
            for number in range(BINDERS)
        ]

    async def _keep(self, actor: NamedActor) -> None:
        while True:
            await self._cluster.joined.wait()
            if not actor.ready:
                try:
                    await actor.ensure()
                except RayUnavailable as exc:
                    _log.warning("Binding directly", actor=actor.name, error=str(exc))
                    await asyncio.sleep(self._options.settings.ray_retry_period)
            await asyncio.sleep(LOOK_PERIOD)


#: Leaving a dead cluster takes 5 s, which is too long for a process that has to stop.
CLOSE_TIMEOUT = 2.0


class ReplicaActors:
    """A replica's connection to Ray, in every term.

    ``run`` it as a task; call ``of_term`` when the replica becomes leader, ``close`` at the end.
    """

    def __init__(self, options: ActorOptions, metrics: RayMetrics) -> None:
        self._options = options
        settings = options.settings
        self._cluster = RayCluster(settings.ray_address, settings.ray_retry_period, metrics)

    def use(self, profiles: Sequence[Profile]) -> None:
        """Use other profiles in the terms that begin from now on."""
        self._options = replace(self._options, profiles=profiles)

    async def load(self, nodes: int) -> None:
        """Import Ray if a cluster with this number of nodes is evaluated with it.

        The import takes 0.5 s, or 10 s and more in a new installation, and blocks other threads for
        most of that. A leader would miss its keep-alives meanwhile and lose the lock.
        """
        if wants_ray(self._options.settings, nodes) and self._cluster.address:
            set_driver_environment()
            await asyncio.to_thread(importlib.import_module, "ray")

    async def run(self, nodes: Callable[[], int]) -> None:
        """Join Ray once there are enough nodes; return at once if Ray is not used."""
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
