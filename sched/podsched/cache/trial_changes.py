"""The changes that a trial makes: a class for each kind of change, with what undoes it.

They implement ``open_trial.TrialChange``; ``Trial`` has a method for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from podsched.cache.cache import Cache
from podsched.cache.nominator import Nomination
from podsched.cache.open_trial import ObjectKey
from podsched.cache.pod_states import Removed
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


@dataclass(eq=False, slots=True)
class _PodChange:
    """A change of a pod."""

    cache: Cache
    pod: PodInfo

    @property
    def key(self) -> ObjectKey:
        return "Pod", self.pod.namespace, self.pod.name


@dataclass(eq=False, slots=True)
class Assumption(_PodChange):
    """A pod is assumed on a node. ``was_known``: the informer knew the pod."""

    node_name: str
    was_known: bool
    nomination: Nomination | None = None

    def do(self) -> bool:
        cache, pod = self.cache, self.pod
        if self._is_outdated(cache.cluster.pods.get(pod.key)):
            return False
        self.remember()
        cache.assume(pod, self.node_name)
        return True

    def remember(self) -> None:
        """Keep the pod's nomination, which ends when it is assumed."""
        self.nomination = self.cache.nominator.nomination(self.pod.uid)

    def _is_outdated(self, known: PodInfo | None) -> bool:
        """Return whether the informer's pod is gone, is another pod, or has got a node."""
        if known is None:
            return self.was_known
        return known.uid != self.pod.uid or bool(known.node_name and known is not self.pod)

    def undo(self) -> None:
        # Unlike ``Cache.forget``, without an event: an uncommitted assumption has blocked no pod.
        self.cache.remove_pod(self.pod.uid)
        self.pod.node_name = ""
        self.cache.nominator.put_back(self.nomination)


@dataclass(eq=False, slots=True)
class Forgetting(_PodChange):
    """The assumption of a pod ends."""

    removed: Removed | None = None

    def do(self) -> bool:
        if self.pod.uid not in self.cache.assumed:
            return False
        removed = self.removed = self.cache.take_out(self.pod.uid)
        assert removed is not None
        # The cache may hold another object for the pod than the caller has: clear both.
        removed.held.info.node_name = self.pod.node_name = ""
        return True

    def undo(self) -> None:
        removed = self.removed
        assert removed is not None
        self.cache.put_back(removed)
        self.pod.node_name = removed.node_name


@dataclass(eq=False, slots=True)
class Removal(_PodChange):
    """A pod is removed."""

    known: PodInfo | None = None
    nomination: Nomination | None = None
    removed: Removed | None = None

    def do(self) -> bool:
        cache, pod = self.cache, self.pod
        known = cache.cluster.pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            return False
        self.known = cache.cluster.known_pods.delete(pod.key) if known is not None else None
        self.nomination = cache.nominator.nomination(pod.uid)
        cache.nominator.delete(pod.uid)
        self.removed = cache.take_out(pod.uid)
        return self.known is not None or self.removed is not None

    def undo(self) -> None:
        cache = self.cache
        if self.known is not None:
            cache.cluster.known_pods.put(self.known)
        if self.removed is not None:
            cache.put_back(self.removed)
        cache.nominator.put_back(self.nomination)


@dataclass(eq=False, slots=True)
class Submission(_PodChange):
    """A pod is added that the informer does not know."""

    def do(self) -> bool:
        cluster = self.cache.cluster
        if self.pod.key in cluster.pods:
            return False
        cluster.known_pods.put(self.pod)
        return True

    def undo(self) -> None:
        self.cache.cluster.known_pods.delete(self.pod.key)


@dataclass(eq=False, slots=True)
class Nominating(_PodChange):
    """A pod is nominated to a node or, with "", its nomination is withdrawn."""

    node_name: str
    before: Nomination | None = None

    def do(self) -> bool:
        cache, pod = self.cache, self.pod
        self.before = cache.nominator.nomination(pod.uid)
        if not self.node_name:
            return cache.nominator.delete(pod.uid)
        return cache.nominate(pod, self.node_name)

    def undo(self) -> None:
        self.cache.nominator.delete(self.pod.uid)
        self.cache.nominator.put_back(self.before)


@dataclass(eq=False, slots=True)
class NodeChange:
    """A node is added, replaced or (``node`` is None) removed.

    No other node gets the row of a removed node until the outermost trial ends.
    """

    cache: Cache
    name: str
    node: v1.Node | None
    before: v1.Node | None = None
    row: int | None = None

    @property
    def key(self) -> ObjectKey:
        return "Node", "", self.name

    def do(self) -> bool:
        cache, columns = self.cache, self.cache.columns
        self.before = cache.cluster.get("Node", "", self.name)
        self.row = None
        if self.node is not None:
            cache.placed.add_node(self.node)
        elif self.before is not None:
            self.row = columns.row_of(self.name)
            # The row stays reserved, so that evaluations find the node there again after a
            # rollback.
            cache.placed.remove_node(self.name, keep_row=True)
        return self.node is not None or self.before is not None

    def undo(self) -> None:
        if self.before is None:
            self.cache.placed.remove_node(self.name)
        else:
            self.cache.placed.add_node(self.before, self.row)


@dataclass(eq=False, slots=True)
class ObjectChange:
    """An object of another kind is added, replaced or (``message`` is None) removed."""

    cache: Cache
    key: ObjectKey
    message: Any | None
    before: Any | None = None
    number: int = 0

    def do(self) -> bool:
        cluster, (kind, namespace, name) = self.cache.cluster, self.key
        self.before = cluster.get(kind, namespace, name)
        if self.message is not None:
            cluster.put(kind, self.message)
            return True
        if self.before is None:
            return False
        # Before it is deleted, while its place is known.
        group = cluster.ordered_objects(kind, namespace)
        self.number = cluster.orders.take((kind, namespace), group, name)
        return cluster.delete(kind, namespace, name)

    def undo(self) -> None:
        cluster, (kind, namespace, name) = self.cache.cluster, self.key
        if self.before is None:
            cluster.delete(kind, namespace, name)
            return
        cluster.put(kind, self.before)
        if self.message is None:
            group = cluster.ordered_objects(kind, namespace)
            cluster.orders.put_back((kind, namespace), group, name, self.number)


@dataclass(eq=False, slots=True)
class Callback:
    """A change that the caller made itself; the trial only knows how to undo it."""

    undo: Callable[[], object]
    #: No object has this key, so no event undoes the change in between.
    key: ObjectKey = ("", "", "")

    def do(self) -> bool:
        return True
