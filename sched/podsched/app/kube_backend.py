"""A backend for a Kubernetes cluster: HTTP to its API server, and the lock in a Lease there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsched.api.kinds import QUEUE_KINDS, UNDECIDING_KINDS, watched_kinds
from podsched.app.backend import About, Answers
from podsched.ask.web.sources import Source
from podsched.config.kube_scheduler import ClientConnectionConfiguration
from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.tasks import TaskSet
from podsched.serve.client.call_metrics import ClientTelemetry
from podsched.serve.kube.access import ClusterAccess
from podsched.serve.kube.cluster import KubeCluster
from podsched.serve.kube.discovery import check_queue_kinds
from podsched.serve.kube.http import KubeHttp
from podsched.telemetry.instruments import MetricRegistry
from podsched.term.election.elector import LeaderElector
from podsched.term.election.lease_candidate import LeaseCandidate
from podsched.term.election.lease_lock import LeaseLock, request_timeout
from podsched.v1 import api_pb2


@dataclass(frozen=True, slots=True)
class KubeOptions:
    """The Kubernetes cluster, and ``clientConnection`` of the configuration.

    early: whether replicas take over as soon as the leader's process is gone.
    coordinated: whether the API server appoints the leader among LeaseCandidates.
    queues: whether the kinds of deploy/kubernetes/queues are watched. If not, Kueue may be
    installed there; the scheduler has no rights to read its objects.
    """

    access: ClusterAccess
    connection: ClientConnectionConfiguration
    election: LeaderElectionSettings
    early: bool = False
    coordinated: bool = False
    queues: bool = False


class KubeBackend:
    """A ``Backend`` for a Kubernetes cluster, which runs its own controllers."""

    def __init__(
        self,
        options: KubeOptions,
        _name: str,
        identity: str,
        registry: MetricRegistry,
        gates: Mapping[str, bool],
    ) -> None:
        """Watch the kinds that the feature gates need, once the informer runs."""
        access, election = options.access, options.election
        telemetry = ClientTelemetry(registry)
        self._http = KubeHttp(access, observer=telemetry)
        # A separate connection, so that no burst of bindings delays a renewal.
        timeout = request_timeout(election)
        self._lease_http = KubeHttp(access, timeout=timeout, observer=telemetry)
        qps, burst = options.connection.qps, options.connection.burst
        self.cluster = KubeCluster(self._http, self._leads, qps=qps, burst=burst)
        #: kube-controller-manager runs the controllers there.
        self.controlled = None
        # Kubernetes' own controllers run there, so their kinds are not watched.
        left_out = UNDECIDING_KINDS if options.queues else {*UNDECIDING_KINDS, *QUEUE_KINDS}
        kinds = [kind for kind in watched_kinds(gates) if kind not in left_out]
        self.informer = self.cluster.informer(kinds)
        telemetry.follow(self.informer)
        self._lock = LeaseLock(self._lease_http, election, follows_holder=options.early)
        self._candidate = (
            LeaseCandidate(self._lease_http, election, identity) if options.coordinated else None
        )
        self._elector: LeaderElector | None = None
        self.queues = options.queues

    async def connect(self) -> LeaseLock:
        """See ``Backend``. The election itself waits for the API server.

        Raises ConfigError if queues are on and the cluster does not have them, or has Kueue.
        """
        if self.queues:
            await check_queue_kinds(self._http)
        return self._lock

    def start(self, tasks: TaskSet, elector: LeaderElector, about: About, answers: Answers) -> None:
        """See ``Backend``; ``about`` and ``answers`` are not used: nothing asks there."""
        self._elector = elector
        if self._candidate is not None:
            tasks.start(self._candidate.run(), "the LeaseCandidate", endless=True)

    def read_leadership(self, source: Source, lock: str) -> None:
        """Return None: replicas write no other Leases there."""

    def not_ready(self) -> str:
        if self._candidate is not None and self._candidate.problem:
            return self._candidate.problem
        if self.informer.synced.is_set():
            return ""
        return f"the informer has not synced: {self.informer.problem()}"

    async def leave(self) -> None:
        """Do nothing: the election releases the Lease."""

    async def close(self) -> None:
        await self._http.close()
        await self._lease_http.close()

    def _leads(self, fence: api_pb2.Fence) -> bool:
        elector = self._elector
        if elector is None or self._lock.holder != elector.state.view.identity:
            return False
        return elector.is_leader() and elector.state.view.term == fence.term
