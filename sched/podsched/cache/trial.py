"""Make changes to the cache that are committed or rolled back together.

A trial is like a database's transaction, an inner trial like a savepoint. All readers of the
cluster (plugins, evaluations) see its changes at once::

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
from functools import partial
from types import TracebackType
from typing import Any

from podsched.cache.cache import Cache
from podsched.cache.changes import Applied
from podsched.cache.open_trial import ObjectKey, TrialChange
from podsched.cache.trial_changes import (
    Assumption,
    Callback,
    Forgetting,
    NodeChange,
    Nominating,
    ObjectChange,
    Removal,
    Submission,
)
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

    def _assumption(self, pod: PodInfo, node_name: str) -> Assumption:
        return Assumption(self._cache, pod, node_name, pod.key in self._cache.cluster.pods)

    def forget(self, pod: PodInfo) -> None:
        """End the assumption of a pod; it is pending again, without a nomination."""
        self.make(Forgetting(self._cache, pod))

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod, whether bound, assumed or pending."""
        self.make(Removal(self._cache, pod))

    def submit(self, pod: PodInfo) -> None:
        """Add a pod without a node; its uid and name must be unused."""
        self.make(Submission(self._cache, pod))

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate a pending pod to a node; "" withdraws its nomination."""
        self.make(Nominating(self._cache, pod, node_name))

    def restrict(self, node_names: frozenset[str] | None) -> None:
        """Allow pods only on these nodes; None for all."""
        cluster = self._cache.cluster
        self.on_undo(partial(setattr, cluster, "placement", cluster.placement))
        cluster.placement = node_names

    def put_node(self, node: v1.Node) -> None:
        """Add or replace a node."""
        self.make(NodeChange(self._cache, node.metadata.name, node))

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods no longer count."""
        self.make(NodeChange(self._cache, name, None))

    def put(self, kind: str, message: Any) -> None:
        """Add or replace an object of another kind."""
        meta = message.metadata
        self.make(ObjectChange(self._cache, (kind, meta.namespace, meta.name), message))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object of another kind."""
        self.make(ObjectChange(self._cache, (kind, namespace, name), None))

    def on_undo(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` if the trial is rolled back, before earlier changes are undone."""
        self._check_use()
        self._changes.made.append(Callback(undo))

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
                if isinstance(change, NodeChange):
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
                    trial.dropped += [one.pod for one in lost if isinstance(one, Assumption)]

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
