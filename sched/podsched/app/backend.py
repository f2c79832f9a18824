"""The interface to the cluster that a replica schedules: podsched's own API, or Kubernetes.

A backend provides the informer, the writes, and the lock of the leader election.
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
    """The answerers of questions about scheduling."""

    replica: Callable[[], ReplicaState]
    answer: Answerer


class Backend(Protocol):
    """The cluster of one replica: informer, writes and lock.

    It is created without connecting; the replica calls ``connect``, then ``start``, at last
    ``leave`` and ``close``.
    """

    @property
    def cluster(self) -> Cluster: ...

    @property
    def controlled(self) -> ControlledCluster | None:
        """The cluster if its controllers run in the scheduler; None if they run elsewhere."""

    @property
    def queues(self) -> bool:
        """Whether pods may be in queues."""

    @property
    def informer(self) -> InformerPort: ...

    async def connect(self) -> ElectionLock:
        """Return the lock, once its store can be reached."""

    def start(self, tasks: TaskSet, elector: LeaderElector, about: About, answers: Answers) -> None:
        """Start the backend's own tasks.

        ``about``: returns a description of the replica. ``answers``: answer questions about it.
        """

    def read_leadership(self, source: Source, lock: str) -> ReadLeadership | None:
        """Return a reader of the leadership; None if a replica knows only itself and the leader."""

    def not_ready(self) -> str:
        """Return why the informer is not current; "" if it is."""

    async def leave(self) -> None:
        """Announce that the replica stops, within a second."""

    async def close(self) -> None:
        """Close the connections."""
