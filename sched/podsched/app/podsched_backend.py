"""A backend for podsched's own API servers: gRPC, and the lock in etcd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsched.api.kinds import watched_kinds
from podsched.app.answering import Answering
from podsched.app.backend import About, Answers
from podsched.app.page_leadership import LeasedLeadership
from podsched.app.replica_lease import ReplicaLease
from podsched.ask.web.sources import Source
from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.tasks import TaskSet
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.call_metrics import ClientTelemetry
from podsched.serve.client.channels import ClientOptions
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.etcd import EtcdStore, connect
from podsched.telemetry.instruments import MetricRegistry
from podsched.term.election.elector import LeaderElector
from podsched.term.election.etcd_lock import EtcdLock


@dataclass(frozen=True, slots=True)
class PodschedOptions:
    """The addresses and credentials of the API servers and etcd."""

    endpoints: tuple[str, ...]
    client: ClientOptions
    etcd: EtcdOptions
    election: LeaderElectionSettings
    liveness_ttl: int


class PodschedBackend:
    """A ``Backend`` whose replicas publish themselves in Leases."""

    def __init__(
        self,
        options: PodschedOptions,
        name: str,
        identity: str,
        registry: MetricRegistry,
        gates: Mapping[str, bool],
    ) -> None:
        """Watch the kinds that the feature gates need, once the informer runs.

        ``name`` of the replica outlives restarts; ``identity`` is unique to this process.
        """
        telemetry = ClientTelemetry(registry)
        self._options = options
        self._name, self._identity = name, identity
        self.cluster = self.controlled = ApiClient(
            options.endpoints, options.client, observer=telemetry
        )
        self.queues = True
        self.informer = self.cluster.informer(watched_kinds(gates))
        telemetry.follow(self.informer)
        self._store: EtcdStore | None = None
        self._lease: ReplicaLease | None = None

    async def connect(self) -> EtcdLock:
        options = self._options
        self._store = await connect(options.etcd)
        return EtcdLock(self._store, options.election, options.liveness_ttl)

    def start(self, tasks: TaskSet, elector: LeaderElector, about: About, answers: Answers) -> None:
        assert self._store is not None
        self.cluster.channels.on_reachability = elector.note_reachability

        def whole() -> dict[str, str]:
            etcd = ",".join(self._options.etcd.endpoints)
            return {**about(), "api": self.cluster.channels.endpoint, "etcd": etcd}

        self._lease = ReplicaLease(
            self.cluster,
            self._name,
            self._identity,
            whole,
            lambda: list(self.informer.objects("Lease").values()),
        )
        tasks.start(self._lease.run(), "replica lease", endless=True)
        answering = Answering(
            self._options.endpoints, self._options.client, answers.replica, answers.answer
        )
        tasks.start(answering.run(), "answer questions", endless=True)
        tasks.start(self._store.wait(), "write to etcd", endless=True)

    def read_leadership(self, source: Source, lock: str) -> LeasedLeadership:
        return LeasedLeadership(source, lock)

    def not_ready(self) -> str:
        return "" if self.informer.synced.is_set() else "the informer has not synced"

    async def leave(self) -> None:
        if self._lease is not None:
            await self._lease.remove()

    async def close(self) -> None:
        await self.cluster.close()
        if self._store is not None:
            await self._store.close()
