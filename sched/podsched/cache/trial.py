"""Make changes to the cache that are committed or rolled back together.

A trial is like a savepoint of a database. All readers of the cluster (plugins, evaluations) see its
changes at once::

    with Trial(cache) as trial:
        trial.assume_many(members, node_names)
        if all_fit:
            trial.commit()
    # here the cluster is as before, unless the trial was committed

Trials nest: an inner trial that is committed becomes a part of the outer one. A trial may stay open
while the informer reports events. An event about an object that the trial changed is applied
*beneath* the trial: the changes of this object are undone, the event is applied, and the changes
are made again if they are still possible. ``dropped`` has the pods whose assumption is no longer
possible, because they were deleted, or bound by another scheduler.

Guarantees (property test in ``tests/cache/test_trial.py``):

* after a rollback the cluster is as if the trial had never existed, whatever events arrived. The
  order of a node's pods is the same, too, because preemption depends on it. Only nodes that events
  added while the trial had changed nodes may have other rows;
* after a rollback a version (``versions``) is as before, unless an event changed its content, and
  rows that the trial touched are in the journal. So an evaluation from before the trial is valid
  and refreshes only these rows;
* a rollback takes time proportional to the number of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from podsched.cache.cache import Cache, Removed
from podsched.cache.changes import Applied
from podsched.cache.nominator import Nomination
from podsched.cache.open_trial import ObjectKey, TrialChange
from podsched.cache.versions import SavedVersions
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


class TrialError(Exception):
    """A trial was used after its end or while an inner one was open; the caller is at fault."""


class Trial:
    """Changes that are committed or rolled back together; the module describes them.

    Ends with ``commit``, with ``roll_back``, or at the end of its ``with`` block, which rolls back
    what was not committed.
    """

    def __init__(self, cache: Cache) -> None:
        """Begin a trial, as a part of the trial that is open."""
        outer = cache.cluster.open_trial
        assert outer is None or isinstance(outer, Trial)
        cache.cluster.open_trial = self
        self._cache = cache
        self._outer = outer
        self._changes = _Changes()
        self._is_open = True
        versions = cache.columns.versions
        self._saved: SavedVersions = SavedVersions(versions.latest, outer._saved if outer else None)
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
        self.make(self._assumption(pod, node_name))

    def assume_many(self, pods: Sequence[PodInfo], node_names: Sequence[str]) -> None:
        """Assume pods on nodes, each pod after those before it; see ``Cache.assume_many``."""
        self._check_use()
        made = [self._assumption(pod, name) for pod, name in zip(pods, node_names, strict=True)]
        for change in made:
            change.remember()
        with self._saved:
            self._cache.assume_many(pods, node_names)
        # Added last: if ``assume_many`` raises, it has assumed none, so nothing has to be undone.
        self._changes.made += made

    def _assumption(self, pod: PodInfo, node_name: str) -> _Assumption:
        return _Assumption(self._cache, pod, node_name, pod.key in self._cache.cluster.pods)

    def forget(self, pod: PodInfo) -> None:
        """End the assumption of a pod; it is pending again, without a nomination."""
        self.make(_Forgetting(self._cache, pod))

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod, whether bound, assumed or pending."""
        self.make(_Removal(self._cache, pod))

    def submit(self, pod: PodInfo) -> None:
        """Add a pod without a node; its uid and name must be unused."""
        self.make(_Submission(self._cache, pod))

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pending pod to a node; "" withdraws its nomination."""
        self.make(_Nominating(self._cache, pod, node_name))

    def restrict(self, node_names: frozenset[str] | None) -> None:
        """Allow pods only on these nodes; None for all."""
        cluster = self._cache.cluster
        self.on_undo(partial(setattr, cluster, "placement", cluster.placement))
        cluster.placement = node_names

    def put_node(self, node: v1.Node) -> None:
        """Add or replace a node."""
        self.make(_NodeChange(self._cache, node.metadata.name, node))

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods no longer count."""
        self.make(_NodeChange(self._cache, name, None))

    def put(self, kind: str, message: Any) -> None:
        """Add or replace an object of another kind."""
        meta = message.metadata
        self.make(_ObjectChange(self._cache, (kind, meta.namespace, meta.name), message))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object of another kind."""
        self.make(_ObjectChange(self._cache, (kind, namespace, name), None))

    def on_undo(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` if the trial is rolled back, before earlier changes are undone."""
        self._check_use()
        self._changes.made.append(_Callback(undo))

    def make(self, change: TrialChange) -> None:
        """Make a change that is undone if the trial is rolled back."""
        self._check_use()
        with self._saved:
            if change.do():
                self._changes.made.append(change)

    def _check_use(self) -> None:
        if not self._is_open or self._cache.cluster.open_trial is not self:
            raise TrialError("the trial has ended, or an inner one is open")

    # ------------------------------------------------------------------ the end

    def inner(self) -> Trial:
        """Begin an inner trial."""
        self._check_use()
        return Trial(self._cache)

    def commit(self) -> None:
        """Keep the changes, as a part of the outer trial if there is one."""
        self._check_use()
        self._saved.hand_over()
        if self._outer is not None:
            self._outer._changes.made += self._changes.made
            self._outer.dropped += self.dropped
        else:
            # Only the outermost commit frees the rows of removed nodes: until then an outer
            # rollback may bring these nodes back, and readers that know their rows stay right.
            for change in self._changes.made:
                if isinstance(change, _NodeChange):
                    change.keep()
        self._end()

    def roll_back(self) -> None:
        """Undo the changes, the latest first."""
        self._check_use()
        with self._saved:
            for change in reversed(self._changes.made):
                change.undo()
        # After the changes are undone, because undoing them gives new versions, too.
        self._saved.put_back()
        self._end()

    def _end(self) -> None:
        self._is_open = False
        self._cache.cluster.open_trial = self._outer
        # The outer trial may still have to put back what it removed.
        if self._outer is None:
            self._cache.cluster.orders.clear()
            self._cache.nominator.orders.clear()
        self._cache.columns.versions.saved = self._outer._saved if self._outer else None

    # ------------------------------------------------------------------ events

    def apply_beneath(self, key: ObjectKey, apply: Callable[[], Applied]) -> Applied:
        """Apply an event about an object as if no open trial had changed the object."""
        set_aside = self._set_aside(key)
        try:
            # Outside of ``self._saved``: the event's own changes keep their new versions.
            return apply()
        finally:
            # In ``finally``, because an event that cannot be applied leaves the trial as it was.
            # The outermost trial's changes come first, as they did originally.
            with self._saved:
                for trial, changes in reversed(set_aside):
                    lost = trial._changes.make_again(changes)
                    trial.dropped += [one.pod for one in lost if isinstance(one, _Assumption)]

    def _set_aside(self, key: ObjectKey) -> list[tuple[Trial, list[TrialChange]]]:
        """Undo the changes of an object in this trial and the outer ones, the latest first."""
        found = []
        trial: Trial | None = self
        # ``self._saved``, not ``trial._saved``: versions are always saved in the innermost trial.
        with self._saved:
            while trial is not None:
                if changes := trial._changes.of(key):
                    found.append((trial, changes))
                    for change in reversed(changes):
                        change.undo()
                trial = trial._outer
        return found


class _Changes:
    """The changes of a trial in order, and by object once an event arrives."""

    __slots__ = ("_indexed", "_of_object", "made")

    def __init__(self) -> None:
        self.made: list[TrialChange] = []
        #: The first ``_indexed`` changes by object.
        self._of_object: dict[ObjectKey, list[TrialChange]] = {}
        self._indexed = 0

    def of(self, key: ObjectKey) -> list[TrialChange]:
        """Return the changes of an object."""
        while self._indexed < len(self.made):
            change = self.made[self._indexed]
            self._of_object.setdefault(change.key, []).append(change)
            self._indexed += 1
        return self._of_object.get(key, [])

    def make_again(self, changes: list[TrialChange]) -> list[TrialChange]:
        """Make an object's changes again after ``of``; drop and return the impossible ones."""
        lost = [change for change in list(changes) if not change.do()]
        for change in lost:
            changes.remove(change)
            self.made.remove(change)
            # It was among the indexed changes, because ``of`` has indexed all.
            self._indexed -= 1
        return lost


# ---------------------------------------------------------------------- one change each


@dataclass(eq=False, slots=True)
class _PodChange:
    """A change of a pod."""

    cache: Cache
    pod: PodInfo

    @property
    def key(self) -> ObjectKey:
        return "Pod", self.pod.namespace, self.pod.name


@dataclass(eq=False, slots=True)
class _Assumption(_PodChange):
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
class _Forgetting(_PodChange):
    """The assumption of a pod ends."""

    removed: Removed | None = None

    def do(self) -> bool:
        if self.pod.uid not in self.cache.assumed:
            return False
        removed = self.removed = self.cache.take_out(self.pod.uid)
        assert removed is not None
        removed.held.info.node_name = self.pod.node_name = ""
        return True

    def undo(self) -> None:
        removed = self.removed
        assert removed is not None
        self.cache.put_back(removed)
        self.pod.node_name = removed.node_name


@dataclass(eq=False, slots=True)
class _Removal(_PodChange):
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
class _Submission(_PodChange):
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
class _Nominating(_PodChange):
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
class _NodeChange:
    """A node is added, replaced or (``node`` is None) removed.

    No other node gets the row of a removed node until the trial is committed.
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
            self.row = None

    def keep(self) -> None:
        """Free the row of a removed node."""
        if self.row is not None:
            self.cache.columns.node_table.free_rows.append(self.row)


@dataclass(eq=False, slots=True)
class _ObjectChange:
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
class _Callback:
    """A change that the caller made itself; the trial only knows how to undo it."""

    undo: Callable[[], object]
    key: ObjectKey = ("", "", "")

    def do(self) -> bool:
        return True
