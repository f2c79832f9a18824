"""What a replica schedules for: the port behind which podsched's own API or Kubernetes is.

A backend says where pods are seen, where bindings go, and which lock its replicas race for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from podsched.app.answering import Answerer
from podsched.ask.web.sources import ReadLeadership, Source
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import Cluster, ControlledCluster, InformerPort
from podsched.term.election.election_lock import ElectionLock
from podsched.term.election.elector import LeaderElector
from podsched.v1.scheduling_pb2 import ReplicaState

About = Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Answers:
    """Who answers questions about scheduling, and how."""

    replica: Callable[[], ReplicaState]
    answer: Answerer


class Backend(Protocol):
    """Made before the replica, ``connect``-ed and ``close``-d by it."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def controlled(self) -> ControlledCluster | None:
        """The cluster, if its controllers run here."""
        ...

    @property
    def informer(self) -> InformerPort: ...

    async def connect(self) -> ElectionLock:
        """Return the lock, once the place where it is kept can be reached."""
        ...

    def start(self, tasks: TaskSet, elector: LeaderElector, about: About, answers: Answers) -> None:
        """Start what runs beside the replica.

        ``about``: what it says about itself; ``answers``: to what others ask.
        """
        ...

    def read_leadership(self, source: Source, lock: str) -> ReadLeadership | None:
        """Return who tells of all replicas; None where each knows of itself and the leader."""
        ...

    def not_ready(self) -> str:
        """Return why the informer is not current, "" if it is."""
        ...

    @property
    def set_aside(self) -> int:
        """Number of objects that cannot be decoded."""
        ...

    async def leave(self) -> None:
        """Say that the replica stops; it has a second for that."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
