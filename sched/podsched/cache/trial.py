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
are made again if they are still possible. The assumption of a pod that was deleted, or bound by
another scheduler, is dropped.

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

from collections.abc import Sequence
from functools import partial
from typing import Any

from podsched.cache.transaction import Transaction
from podsched.cache.trial_changes import (
    Assumption,
    Forgetting,
    NodeChange,
    Nominating,
    ObjectChange,
    Removal,
    Submission,
)
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


class Trial(Transaction):
    """Changes that are committed or rolled back together; the module describes them."""

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
