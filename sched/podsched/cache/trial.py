"""Changes to a cluster that are made to see what follows, and then kept or undone as one.

A trial is a savepoint. What is done through it is seen by whoever reads the cluster (plugins,
evaluations), as if it had happened::

    with Trial(cache) as trial:
        trial.assume_many(members, node_names)
        if all_fit:
            trial.commit()
    # here everything is as before, unless it was committed

Trials nest: an inner one that is committed becomes a part of the outer one. A trial may stay open
while the informer reports events. An event about an object that the trial has changed is taken
over beneath the trial: the changes of this object are undone, the event is applied, and the
changes are made again as far as they still can be (``dropped`` has the pods of those that cannot:
the pod is gone, or has been bound by somebody else).

Guarantees (property test in ``tests/cache/test_trial.py``):

* after a rollback the cluster is what it would be if the trial had never been, whatever events
  came meanwhile; the order of a node's pods is the same, too, since preemption decides by it.
  Only nodes that events added or moved while the trial had changed nodes may have other rows,
  and another place in the order of nodes;
* after a rollback a version (``versions``) is what it was, unless an event changed what it stands
  for; rows that the trial touched are in the journal. So an evaluation from before the trial is
  valid, and looks again at these rows alone;
* a rollback takes time proportional to what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from podsched.cache.cache import Cache, Removed
from podsched.cache.changes import Applied
from podsched.cache.nominator import Nomination
from podsched.cache.open_trial import ObjectKey, TrialChange
from podsched.cache.versions import SavedVersions
from podsched.cache.zones import zone_key
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


class TrialError(Exception):
    """A trial was used after its end, or while an inner one was open: a fault of the caller."""


class Trial:
    """Ends by ``commit`` or ``roll_back``, or at the end of ``with``."""

    def __init__(self, cache: Cache) -> None:
        """Begin a trial, as a part of the one that is open."""
        outer = cache.open_trial
        assert outer is None or isinstance(outer, Trial)
        cache.cluster.open_trial = self
        self._cache = cache
        self._outer = outer
        self._changes: list[TrialChange] = []
        #: The changes up to ``_indexed``, by object; for events alone.
        self._of_object: dict[ObjectKey, list[TrialChange]] = {}
        self._indexed = 0
        self._is_open = True
        versions = cache.columns.versions
        self._saved: SavedVersions = SavedVersions(versions.tick, outer._saved if outer else None)
        versions.saved = self._saved
        #: Pods whose assumption ended because of an event.
        self.dropped: list[PodInfo] = []

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_open:
            self.roll_back()

    # ------------------------------------------------------------------ changes

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a waiting pod on a node. Raises CacheError when the cache holds it already."""
        self.make(_Assumption(self._cache, pod, node_name))

    def assume_many(self, pods: Sequence[PodInfo], node_names: Sequence[str]) -> None:
        """Assume pods on nodes, each pod after those before it; see ``Cache.assume_many``."""
        self._check_use()
        made = [
            _Assumption(self._cache, pod, name) for pod, name in zip(pods, node_names, strict=True)
        ]
        for change in made:
            change.remember()
        with self._saved:
            self._cache.assume_many(pods, node_names)
        self._changes += made

    def forget(self, pod: PodInfo) -> None:
        """Take a pod off the node that it is assumed on: it waits again, not nominated."""
        self.make(_Forgetting(self._cache, pod))

    def remove(self, pod: PodInfo) -> None:
        """Take a pod away: bound, assumed or waiting."""
        self.make(_Removal(self._cache, pod))

    def submit(self, pod: PodInfo) -> None:
        """Add a pod without a node, whose uid and name are free."""
        self.make(_Submission(self._cache, pod))

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Have a waiting pod tried on a node first; "" withdraws its nomination."""
        self.make(_Nominating(self._cache, pod, node_name))

    def restrict(self, node_names: frozenset[str] | None) -> None:
        """Let pods use these nodes only; None for all."""
        cluster = self._cache.cluster
        self.on_undo(partial(setattr, cluster, "placement", cluster.placement))
        cluster.placement = node_names

    def put_node(self, node: v1.Node) -> None:
        """Add or replace a node."""
        self.make(_NodeChange(self._cache, node.metadata.name, node))

    def remove_node(self, name: str) -> None:
        """Take a node away; pods that are on it count nowhere."""
        self.make(_NodeChange(self._cache, name, None))

    def put(self, kind: str, message: Any) -> None:
        """Add or replace an object of another kind."""
        meta = message.metadata
        self.make(_ObjectChange(self._cache, (kind, meta.namespace, meta.name), message))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Take away an object of another kind."""
        self.make(_ObjectChange(self._cache, (kind, namespace, name), None))

    def on_undo(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` when the trial is rolled back, before what was done earlier is undone."""
        self._check_use()
        self._changes.append(_Callback(undo))

    def make(self, change: TrialChange) -> None:
        """Make a change of another part of the cache, to be undone with the trial."""
        self._check_use()
        with self._saved:
            if change.do():
                self._changes.append(change)

    def _check_use(self) -> None:
        if not self._is_open or self._cache.open_trial is not self:
            raise TrialError("the trial has ended, or an inner one is open")

    # ------------------------------------------------------------------ the end

    def inner(self) -> Trial:
        """Begin a trial that is a part of this one."""
        self._check_use()
        return Trial(self._cache)

    def commit(self) -> None:
        """Keep what was done: for good, or as a part of the outer trial."""
        self._check_use()
        self._saved.hand_over()
        if self._outer is not None:
            self._outer._changes += self._changes
            self._outer.dropped += self.dropped
        else:
            for change in self._changes:
                if isinstance(change, _NodeChange):
                    change.keep()
        self._end()

    def roll_back(self) -> None:
        """Undo what was done, the latest first."""
        self._check_use()
        with self._saved:
            for change in reversed(self._changes):
                change.undo()
        self._saved.put_back()
        self._end()

    def _end(self) -> None:
        self._is_open = False
        self._cache.cluster.open_trial = self._outer
        if self._outer is None:
            self._cache.cluster.orders.clear()
            self._cache.nominator.orders.clear()
        self._cache.columns.versions.saved = self._outer._saved if self._outer else None

    # ------------------------------------------------------------------ events

    def beneath(self, key: ObjectKey, apply: Callable[[], Applied]) -> Applied:
        """Apply an event about an object as if the open trials had not changed the object."""
        set_aside = self._set_aside(key)
        try:
            return apply()
        finally:
            with self._saved:
                for trial, changes in reversed(set_aside):
                    trial._make_again(changes)

    def _set_aside(self, key: ObjectKey) -> list[tuple[Trial, list[TrialChange]]]:
        """Undo the changes of an object in this trial and the outer ones, the latest first."""
        found = []
        trial: Trial | None = self
        while trial is not None:
            changes = trial._changes_of(key)
            if changes:
                found.append((trial, changes))
                with self._saved:
                    for change in reversed(changes):
                        change.undo()
            trial = trial._outer
        return found

    def _changes_of(self, key: ObjectKey) -> list[TrialChange]:
        while self._indexed < len(self._changes):
            change = self._changes[self._indexed]
            self._of_object.setdefault(change.key, []).append(change)
            self._indexed += 1
        return self._of_object.get(key, [])

    def _make_again(self, changes: list[TrialChange]) -> None:
        for change in list(changes):
            if change.do():
                continue
            changes.remove(change)
            self._changes.remove(change)
            self._indexed -= 1
            if isinstance(change, _Assumption):
                self.dropped.append(change.pod)


# ---------------------------------------------------------------------- one change each


def _pod_key(pod: PodInfo) -> ObjectKey:
    return "Pod", pod.namespace, pod.name


class _Assumption:
    """A pod on a node."""

    __slots__ = ("_cache", "_nomination", "_was_known", "node_name", "pod")

    def __init__(self, cache: Cache, pod: PodInfo, node_name: str) -> None:
        self._cache, self.pod, self.node_name = cache, pod, node_name
        self._was_known = pod.key in cache.cluster.pods
        self._nomination: Nomination | None = None

    @property
    def key(self) -> ObjectKey:
        return _pod_key(self.pod)

    def do(self) -> bool:
        cache, pod = self._cache, self.pod
        if self._is_outdated(cache.cluster.pods.get(pod.key)):
            return False
        self.remember()
        cache.assume(pod, self.node_name)
        return True

    def remember(self) -> None:
        """Keep the pod's nomination, which ends when it is assumed."""
        self._nomination = self._cache.nominator.nomination(self.pod.uid)

    def _is_outdated(self, known: PodInfo | None) -> bool:
        """Whether the informer's pod is gone, is another one, or has a node by now."""
        if known is None:
            return self._was_known
        return known.uid != self.pod.uid or bool(known.node_name and known is not self.pod)

    def undo(self) -> None:
        self._cache.remove_pod(self.pod.uid)
        self.pod.node_name = ""
        self._cache.nominator.put_back(self._nomination)


class _Forgetting:
    """A pod that is assumed no more."""

    __slots__ = ("_cache", "_pod", "_removed")

    def __init__(self, cache: Cache, pod: PodInfo) -> None:
        self._cache, self._pod = cache, pod
        self._removed: Removed | None = None

    @property
    def key(self) -> ObjectKey:
        return _pod_key(self._pod)

    def do(self) -> bool:
        if not self._cache.is_assumed(self._pod.uid):
            return False
        removed = self._removed = self._cache.take_out(self._pod.uid)
        assert removed is not None
        removed.held.info.node_name = self._pod.node_name = ""
        return True

    def undo(self) -> None:
        removed = self._removed
        assert removed is not None
        self._cache.put_back(removed)
        self._pod.node_name = removed.node_name


class _Removal:
    """A pod that is taken away."""

    __slots__ = ("_cache", "_known", "_nomination", "_removed", "pod")

    def __init__(self, cache: Cache, pod: PodInfo) -> None:
        self._cache, self.pod = cache, pod
        self._known: PodInfo | None = None
        self._nomination: Nomination | None = None
        self._removed: Removed | None = None

    @property
    def key(self) -> ObjectKey:
        return _pod_key(self.pod)

    def do(self) -> bool:
        cache, pod = self._cache, self.pod
        known = cache.cluster.pods.get(pod.key)
        if known is not None and known.uid != pod.uid:
            return False
        self._known = cache.cluster.delete_pod(pod.key) if known is not None else None
        self._nomination = cache.nominator.nomination(pod.uid)
        cache.nominator.delete(pod.uid)
        self._removed = cache.take_out(pod.uid)
        return self._known is not None or self._removed is not None

    def undo(self) -> None:
        cache = self._cache
        if self._known is not None:
            cache.cluster.put_pod(self._known)
        if self._removed is not None:
            cache.put_back(self._removed)
        cache.nominator.put_back(self._nomination)


class _Submission:
    """A pod that the informer does not know."""

    __slots__ = ("_cache", "pod")

    def __init__(self, cache: Cache, pod: PodInfo) -> None:
        self._cache, self.pod = cache, pod

    @property
    def key(self) -> ObjectKey:
        return _pod_key(self.pod)

    def do(self) -> bool:
        cluster = self._cache.cluster
        if self.pod.key in cluster.pods:
            return False
        cluster.put_pod(self.pod)
        return True

    def undo(self) -> None:
        self._cache.cluster.delete_pod(self.pod.key)


class _Nominating:
    """A nomination, or its withdrawal."""

    __slots__ = ("_before", "_cache", "_node_name", "_pod")

    def __init__(self, cache: Cache, pod: PodInfo, node_name: str) -> None:
        self._cache, self._pod, self._node_name = cache, pod, node_name
        self._before: Nomination | None = None

    @property
    def key(self) -> ObjectKey:
        return _pod_key(self._pod)

    def do(self) -> bool:
        cache, pod = self._cache, self._pod
        self._before = cache.nominator.nomination(pod.uid)
        if not self._node_name:
            return cache.nominator.delete(pod.uid)
        return cache.nominate(pod, self._node_name)

    def undo(self) -> None:
        self._cache.nominator.delete(self._pod.uid)
        self._cache.nominator.put_back(self._before)


class _NodeChange:
    """A node that is added, replaced or (``node`` is None) taken away.

    The row of a node that is taken away stays its own until the trial is committed.
    """

    __slots__ = ("_before", "_cache", "_name", "_node", "_order", "_row")

    def __init__(self, cache: Cache, name: str, node: v1.Node | None) -> None:
        self._cache, self._name, self._node = cache, name, node
        self._before: v1.Node | None = None
        self._order: dict[str, list[str]] = {}
        self._row: int | None = None

    @property
    def key(self) -> ObjectKey:
        return "Node", "", self._name

    def do(self) -> bool:
        cache, columns = self._cache, self._cache.columns
        self._before = cache.cluster.get("Node", "", self._name)
        self._order = columns.node_order() if self._leaves_its_place() else {}
        self._row = None
        if self._node is not None:
            cache.add_node(self._node)
        elif self._before is not None:
            self._row = columns.row_of(self._name)
            cache.remove_node(self._name, keep_row=True)
        return self._node is not None or self._before is not None

    def undo(self) -> None:
        if self._before is None:
            self._cache.remove_node(self._name)
        else:
            self._cache.add_node(self._before, self._row)
            self._row = None
        if self._order:
            self._cache.columns.put_in_order(self._order)

    def _leaves_its_place(self) -> bool:
        """Whether the node will come back as the last one of its zone."""
        if self._before is None or self._node is None:
            return self._before is not None
        return zone_key(self._before.metadata.labels) != zone_key(self._node.metadata.labels)

    def keep(self) -> None:
        """Give the row of a node that was taken away to others."""
        if self._row is not None:
            self._cache.columns.release_row(self._row)


class _ObjectChange:
    """An object of another kind that is added, replaced or (``message`` is None) taken away."""

    __slots__ = ("_before", "_cache", "_message", "_number", "key")

    def __init__(self, cache: Cache, key: ObjectKey, message: Any | None) -> None:
        self._cache, self.key, self._message = cache, key, message
        self._before: Any | None = None
        self._number = 0

    def do(self) -> bool:
        cluster, (kind, namespace, name) = self._cache.cluster, self.key
        self._before = cluster.get(kind, namespace, name)
        if self._message is not None:
            cluster.put(kind, self._message)
            return True
        if self._before is None:
            return False
        group = cluster.ordered_objects(kind, namespace)
        self._number = cluster.orders.take((kind, namespace), group, name)
        return cluster.delete(kind, namespace, name)

    def undo(self) -> None:
        cluster, (kind, namespace, name) = self._cache.cluster, self.key
        if self._before is None:
            cluster.delete(kind, namespace, name)
            return
        cluster.put(kind, self._before)
        if self._message is None:
            group = cluster.ordered_objects(kind, namespace)
            cluster.orders.put_back((kind, namespace), group, name, self._number)


class _Callback:
    """Something else that is to be undone."""

    __slots__ = ("_undo",)

    key: ObjectKey = ("", "", "")

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def do(self) -> bool:
        return True

    def undo(self) -> None:
        self._undo()
