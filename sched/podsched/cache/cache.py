"""The scheduler's cache: the informer's objects, and pods assumed until the informer reports them.

A pod's states are those of kube-scheduler's cache (``backend/cache/interface.go``, v1.36), without
Expired, which kube-scheduler never enters either (its durationToExpireAssumedPod is 0)::

           +------------------------------------------------+     +----+
           |                   add_pod                      |     |    | add_pod
           |                                                v     v    | (update)
        Initial --- assume ---> Assumed --- add_pod -----> Added ------+
           ^                     |   |                      |
           |                     |   |                      | the pod is deleted, has finished
           +------ forget -------+   |                      v or lost its node
                                     +-----------------> Deleted
                                      the pod is deleted after finish_binding

A pod that is deleted while it is being bound (assumed, before ``finish_binding``) stays assumed. A
``PendingChange`` tells its binding cycle, which gives up and forgets the pod.

Invariants, checked from scratch by ``invariants.check``: each pod held here is in ``placed`` once,
and none is nominated.

Non-goals: threads, clocks, I/O. Changes for the queue are returned, not applied.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from podsched.api.conditions import is_finished
from podsched.cache.changes import NOTHING, Anomaly, AnomalyKind, Applied, Change, PendingChange
from podsched.cache.objects import ClusterState
from podsched.cache.placed_pods import PlacedPods
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.classify import (
    OBJECT_RESOURCES,
    pod_update_actions,
    single_actions,
)
from podsched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    UNSCHEDULED_POD_ADD,
    ActionType,
    ClusterEvent,
    Resource,
)
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


class CacheError(Exception):
    """The state of the pod does not allow this call; the caller is at fault."""


class Stage(enum.Enum):
    """The state of a pod that the cache holds."""

    ASSUMED = "Assumed"
    ADDED = "Added"


class HeldPod(NamedTuple):
    """A pod with a node, as the columns count it; immutable, so that copies of a cache share it."""

    info: PodInfo
    stage: Stage
    binding_finished: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """A pod that a trial has removed, and its number in the order of its node's pods."""

    held: HeldPod
    node_name: str
    number: int


class Cache:
    """Nodes, pods and all other objects, including assumed pods.

    ``schedulers`` names the profiles whose pods are scheduled here; None: all.
    """

    def __init__(
        self,
        classes: PodClasses | None = None,
        schedulers: Collection[str] | None = None,
        cluster: ClusterState | None = None,
    ) -> None:
        self.classes = classes if classes is not None else PodClasses()
        self.cluster = cluster if cluster is not None else ClusterState()
        self.columns = self.cluster.columns
        self.nominator = self.cluster.nominator
        self.placed = PlacedPods(self.columns, self.cluster.orders)
        self._schedulers = schedulers
        #: By uid, every pod that counts on a node, known or unknown; others only read it.
        self.held: dict[str, HeldPod] = {}
        #: The uids of the pods of ``held`` in stage ASSUMED, so that counting them is O(1).
        self.assumed: set[str] = set()

    def copy(self) -> Cache:
        """Return a copy of the cluster for another thread, without open trials.

        Pods and objects are shared, so do not assume pods in the copy that are pending here. In the
        same thread use a trial: its cost depends on the changes, not on the size of the cluster.
        """
        # The copy gets its own PodClasses, because interning is not safe for threads.
        made = Cache(None, self._schedulers, self.cluster.copy())
        made.held, made.assumed = dict(self.held), set(self.assumed)
        made.placed.without_node = {n: dict(p) for n, p in self.placed.without_node.items()}
        return made

    def drop_all(self) -> None:
        """Drop everything. Others may still refer to the cache, but must not use it any more."""
        for part in (self.columns, self.cluster, self):
            vars(part).clear()

    # ------------------------------------------------------------------ reading

    def scheduled_members(self, group: str) -> list[PodInfo]:
        """Return the pods of a PodGroup ("namespace/name") that have a node, assumed ones too."""
        held = (self.held.get(pod.uid) for pod in self.cluster.members(group))
        return [one.info for one in held if one is not None]

    def is_responsible_for(self, scheduler_name: str) -> bool:
        """Whether pods with this schedulerName are scheduled here."""
        return self._schedulers is None or scheduler_name in self._schedulers

    # ------------------------------------------------------------------ assuming

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count the pod on the node until the informer confirms it; sets ``pod.node_name``.

        Raises CacheError if the cache already holds the pod.
        """
        if pod.uid in self.held:
            raise CacheError(f"pod {pod.key} ({pod.uid}) is in the cache, so it can't be assumed")
        pod.node_name = node_name
        self._hold(pod, Stage.ASSUMED)
        self.placed.add(pod)

    def assume_many(self, pods: Sequence[PodInfo], node_names: Sequence[str]) -> None:
        """Assume pods on nodes; pods of one class on distinct nodes take one NumPy step.

        Raises CacheError, and assumes none, when the cache holds one of them already.
        """
        for pod in pods:
            if pod.uid in self.held:
                raise CacheError(f"pod {pod.key} ({pod.uid}) is in the cache already")
        rows = [*map(self.columns.node_table.row_of.get, node_names)]
        # NumPy adds once per row even if the row occurs several times in the index.
        # Terminating pods are counted in a separate ClassUsage, so they cannot share the step.
        distinct = len(pods) > 1 and len(set(rows)) == len(rows) and None not in rows
        if not distinct or any(p.cls is not pods[0].cls or p.terminating for p in pods):
            for pod, node_name in zip(pods, node_names, strict=True):
                self.assume(pod, node_name)
            return
        self.columns.pod_table.add_many(np.array(rows, dtype=np.intp), pods)
        for pod, node_name in zip(pods, node_names, strict=True):
            pod.node_name = node_name
            self._hold(pod, Stage.ASSUMED)

    def finish_binding(self, uid: str) -> None:
        """Note that the pod is bound; no effect if the pod was added or deleted meanwhile."""
        held = self.held.get(uid)
        if held is not None:
            # Not by ``_replace``, which takes three times as long.
            self.held[uid] = HeldPod(held.info, held.stage, binding_finished=True)

    def forget(self, pod: PodInfo) -> Change:
        """Remove an assumed pod, clear ``pod.node_name`` and return the pod's deletion event.

        Raises CacheError if the pod is not assumed.
        """
        if pod.uid not in self.assumed:
            raise CacheError(f"pod {pod.key} ({pod.uid}) wasn't assumed so cannot be forgotten")
        info = self.held[pod.uid].info
        self.remove_pod(pod.uid)
        # First, because the event names the node.
        change = _deleted(info)
        info.node_name = pod.node_name = ""
        return change

    def nominate(self, pod: PodInfo, node_name: str) -> bool:
        """Nominate a pod in memory; return False if it is bound, assumed or unknown."""
        # As kube-scheduler's nominator. The nomination of a pod that is gone would never end; a pod
        # with a node would count twice there.
        known = self.cluster.pods.get(pod.key)
        if known is None or known.uid != pod.uid or pod.uid in self.held:
            return False
        self.nominator.add(pod, node_name)
        return True

    # ------------------------------------------------------------------ pods with a node

    def add_pod(self, pod: PodInfo) -> Anomaly | None:
        """Add, confirm or update a pod with a node."""
        held = self.held.get(pod.uid)
        if held is None:
            self._hold(pod, Stage.ADDED)
            self.placed.add(pod)
            return None
        anomaly = None
        if held.info.node_name != pod.node_name:
            detail = f"{held.info.node_name} ({held.stage.value}), informed: {pod.node_name}"
            anomaly = Anomaly(AnomalyKind.NODE_MISMATCH, pod.key, detail)
            self.placed.remove(held.info)
            self.placed.add(pod)
        else:
            self.placed.replace(pod)
        self.held[pod.uid] = HeldPod(pod, Stage.ADDED)
        self.assumed.discard(pod.uid)
        return anomaly

    def remove_pod(self, uid: str) -> None:
        """Stop holding and counting a pod, assumed or not; no effect if it is not held."""
        held = self.held.pop(uid, None)
        if held is not None:
            self.assumed.discard(uid)
            self.placed.remove(held.info)
            self.cluster.known_pods.note(held.info.key)

    def take_out(self, uid: str) -> Removed | None:
        """Remove a pod for a trial, assumed or not; None if the cache does not hold it."""
        held = self.held.get(uid)
        if held is None:
            return None
        node_name = held.info.node_name
        # First: once the pod has left the list, its place in it is unknown.
        number = self.cluster.orders.take(node_name, self.placed.on(node_name), uid)
        self.remove_pod(uid)
        return Removed(held, node_name, number)

    def put_back(self, removed: Removed) -> None:
        """Restore a pod removed by a trial, at its old place in the order of its node's pods."""
        held, pod = removed.held, removed.held.info
        pod.node_name = removed.node_name
        self.held[pod.uid] = held
        if held.stage is Stage.ASSUMED:
            self.assumed.add(pod.uid)
        self.placed.add(pod)
        pods = self.placed.on(pod.node_name)
        self.cluster.orders.put_back(pod.node_name, pods, pod.uid, removed.number)

    def _hold(self, pod: PodInfo, stage: Stage) -> None:
        """Record a pod as held in a stage; a held pod is not nominated any more."""
        self.held[pod.uid] = HeldPod(pod, stage)
        if stage is Stage.ASSUMED:
            self.assumed.add(pod.uid)
        self.nominator.delete(pod.uid)
        self.cluster.known_pods.note(pod.key)

    # ------------------------------------------------------------------ informers

    def apply(self, kind: str, old: Any | None, new: Any | None) -> Applied:
        """Apply an informer's event: no ``old`` means added, no ``new`` means deleted.

        Raises QuantityError for an amount that is not a quantity, and then changes nothing.
        """
        trial = self.cluster.open_trial
        if trial is None:
            return self._apply(kind, old, new)
        meta = (new if new is not None else old).metadata  # type: ignore[union-attr]
        key = (kind, meta.namespace, meta.name)
        return trial.apply_beneath(key, lambda: self._apply(kind, old, new))

    def _apply(self, kind: str, old: Any | None, new: Any | None) -> Applied:
        if kind == "Pod":
            return self._apply_pod(old, new)
        if kind == "Node":
            return self.placed.apply(old, new)
        return _apply_object(self.cluster, kind, old, new)

    def _apply_pod(self, old: v1.Pod | None, new: v1.Pod | None) -> Applied:
        """Apply an event about a Pod.

        A finished pod counts as deleted. A pod with another uid replaces the one of its name.
        """
        reported = new if new is not None else old
        assert reported is not None
        metadata = reported.metadata
        key = f"{metadata.namespace}/{metadata.name}"
        known = self.cluster.pods.get(key)
        if new is None or is_finished(new):
            return self._pod_gone(known) if known is not None else NOTHING
        # This may raise QuantityError, so nothing is changed before it.
        info = make_pod_info(new, self.classes, known)
        if known is not None and known.uid != info.uid:
            # The informer has merged the deletion and the creation of two pods of one name.
            gone = self._pod_gone(known)
            new_one = self._apply_unfinished(None, info)
            # One change is enough: if the uids differ, the queue's update removes the old pod.
            pending = new_one.pending or gone.pending
            if new_one.pending is not None and gone.pending is not None:
                pending = PendingChange(gone.pending.old, info, gone.pending.assumed)
            changes = gone.changes + new_one.changes
            return Applied(changes, pending, new_one.anomaly or gone.anomaly)
        return self._apply_unfinished(known, info)

    def _apply_unfinished(self, known: PodInfo | None, info: PodInfo) -> Applied:
        """Apply the addition or update of a pod that has not finished."""
        self.cluster.known_pods.put(info)
        if info.node_name:
            return self._pod_assigned(known, info)
        held = self.held.get(info.uid)
        if held is not None and held.stage is Stage.ASSUMED:
            # An update from before the binding arrives while it is written. The columns keep the
            # version that was assumed: the update with the node replaces it.
            return Applied(pending=PendingChange(known, info, assumed=True))
        if held is not None:
            self.remove_pod(info.uid)
            change = _deleted(held.info)
            anomaly = Anomaly(AnomalyKind.UNASSIGNED, info.key, held.info.node_name)
            return Applied((change,), PendingChange(None, info), anomaly)
        # Nominations by other schedulers do not count, as in kube-scheduler.
        if self.is_responsible_for(info.cls.scheduler_name):
            self.nominator.update(known, info)
        if known is None and info.group:
            # Only the other members of its group may wait for a pod that has no node yet.
            change = Change(UNSCHEDULED_POD_ADD, None, info.pod)
            return Applied((change,), PendingChange(None, info))
        return Applied(pending=PendingChange(known, info))

    def _pod_assigned(self, known: PodInfo | None, info: PodInfo) -> Applied:
        """Apply the addition or update of a pod with a node; this confirms an assumed pod."""
        held = self.held.get(info.uid)
        if held is not None and held.stage is Stage.ADDED:
            before = held.info
            anomaly = self.add_pod(info)
            actions = single_actions(pod_update_actions(before, info))
            events = (ClusterEvent(Resource.ASSIGNED_POD, action) for action in actions)
            changes = tuple(Change(e, before.pod, info.pod) for e in events)
            return Applied(changes, anomaly=anomaly)
        anomaly = self.add_pod(info)
        # The queue has to drop a pod that it knows as pending. A pod that is first seen with a node
        # never was in the queue.
        pending = PendingChange(known, None, held is not None) if known is not None else None
        change = Change(ASSIGNED_POD_ADD, None, info.pod)
        return Applied((change,), pending, anomaly)

    def _pod_gone(self, known: PodInfo) -> Applied:
        """Remove a pod; ``known`` is its last version from the informer."""
        self.cluster.known_pods.delete(known.key)
        held = self.held.get(known.uid)
        if held is None:
            self.nominator.delete(known.uid)
            return Applied(pending=PendingChange(known, None))
        if held.stage is Stage.ASSUMED and not held.binding_finished:
            # Its binding cycle ends the assumption, together with what plugins reserved for the
            # pod.
            return Applied(pending=PendingChange(known, None, assumed=True))
        self.remove_pod(known.uid)
        change = _deleted(held.info)
        # Bound, but deleted before the informer saw it with its node.
        pending = None
        if held.stage is Stage.ASSUMED:
            pending = PendingChange(known, None, assumed=True)
        return Applied((change,), pending)


def _deleted(pod: PodInfo) -> Change:
    """Return the event that a pod left its node.

    An assumed pod's message has no nodeName yet, but hints read it, so the event has a copy with
    the node's name.
    """
    message = pod.pod
    if message.spec.node_name != pod.node_name:
        message = v1.Pod()
        message.CopyFrom(pod.pod)
        message.spec.node_name = pod.node_name
    return Change(ASSIGNED_POD_DELETE, message, None)


def _apply_object(cluster: ClusterState, kind: str, old: Any | None, new: Any | None) -> Applied:
    """Apply an event about an object that is neither a Pod nor a Node."""
    meta = (new if new is not None else old).metadata  # type: ignore[union-attr]
    if new is not None:
        cluster.put(kind, new)
    else:
        cluster.delete(kind, meta.namespace, meta.name)
    # After the object is replaced, because the assumption is compared with the new object.
    if (assumed := cluster.assumed_kinds.get(kind)) is not None:
        assumed.drop_if_outdated(meta.namespace, meta.name)
    resource = OBJECT_RESOURCES.get(kind)
    if resource is None:
        return NOTHING
    if old is None:
        action = ActionType.ADD
    else:
        action = ActionType.DELETE if new is None else ActionType.UPDATE
    return Applied((Change(ClusterEvent(resource, action), old, new),))
