"""Describes a running replica: to clients, on its web page, in its Lease, and as metrics."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from podsched.app.load import LoadMeter
from podsched.app.term_runner import TermRunner
from podsched.ask.web.sources import Leadership
from podsched.ask.web.sources import Replica as PageReplica
from podsched.serve.client.cluster import InformerPort
from podsched.telemetry.metrics import ElectionMetrics
from podsched.term.election.elector import LeaderElector
from podsched.v1.scheduling_pb2 import ReplicaState


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Describes a replica whose election runs.

    lock: the key of the lock's Lease; lock_name: its name in metrics. page: returns the address of
    the replica's page, "" if it serves none. is_racing: whether the replica competes for the lock.
    """

    name: str
    identity: str
    lock: str
    lock_name: str
    priority: int
    elector: LeaderElector
    runner: TermRunner
    informer: InformerPort
    load: LoadMeter
    metrics: ElectionMetrics
    page: Callable[[], str]
    is_racing: Callable[[], bool]

    @property
    def _term(self) -> int:
        """The term that the replica leads, else 0."""
        return self.elector.state.view.term if self.elector.is_leader() else 0

    @property
    def _transitions(self) -> int:
        # -1 until the record has been read.
        return max(0, self.elector.state.view.transitions)

    def state(self) -> ReplicaState:
        """Return the replica's identity, and whether it leads."""
        leading = self.elector.is_leader()
        return ReplicaState(
            name=self.name, identity=self.identity, leading=leading, term=self._term
        )

    def leadership(self, _: float) -> Leadership:
        """Return the leadership for a page of replicas that publish no Leases."""
        own = PageReplica(
            self.identity,
            "leading" if self.elector.is_leader() else "standby",
            self._term,
            self.page(),
            self.load.load(),
        )
        paused = "this replica" if self.runner.paused else ""
        holder = self.elector.state.view.announced
        return Leadership(self.lock, holder, 0.0, self._transitions, paused, (own,))

    def update_metrics(self) -> None:
        """Set the metrics of the election to what is true now."""
        metrics, leading = self.metrics, self.elector.is_leader()
        metrics.leader_election_master_status.labels(self.lock_name).set(float(leading))
        metrics.term.set(float(self._term))
        slow_paths = metrics.leader_election_slowpath_total.labels(self.lock_name)
        slow_paths.value = float(self.elector.slow_paths)
        metrics.paused.set(float(self.runner.paused))
        metrics.transitions.set(float(self._transitions))

    def published(self, health: str) -> dict[str, str]:
        """Return what the replica publishes in its Lease; ``health``: the health port's URL."""
        leading = self.elector.is_leader()
        return {
            "pid": str(os.getpid()),
            "host": socket.gethostname(),
            "state": "leading" if leading else "standby",
            "term": str(self._term) if leading else "",
            "leader": self.elector.state.view.announced,
            "lock": self.lock,
            "priority": str(self.priority),
            "warm": "true" if self.is_racing() and self.informer.synced.is_set() else "false",
            "health": health,
            "page": self.page(),
            "load": self.load.line(),
            "set-aside": str(len(self.runner.state.set_aside) + self.informer.undecodable),
            "seen": f"{time.time():.3f}",
        }
