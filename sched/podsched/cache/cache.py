"""The scheduler's cache: the informer's objects, and pods assumed until the informer reports them.

``Cache`` applies the informer's events; ``pod_states`` has the states of the pods with a node.
Changes for the queue are returned, not applied. Non-goals: threads, clocks, I/O.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from podsched.api.conditions import is_finished
from podsched.api.objects import object_key
from podsched.api.pod_groups import label_min_count
from podsched.api.quantity import QuantityError
from podsched.cache.changes import NOTHING, Anomaly, AnomalyKind, Applied, Change, PendingChange
from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.cache.pod_states import PodStates, Stage, deletion_of
from podsched.framework.classify import OBJECT_RESOURCES, pod_update_actions, single_actions
from podsched.framework.events import (
    ASSIGNED_POD_ADD,
    UNSCHEDULED_POD_ADD,
    ActionType,
    ClusterEvent,
    Resource,
)
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


class Cache(PodStates):
    """Nodes, pods and all other objects, including assumed pods.

    ``schedulers`` names the profiles whose pods are scheduled here; None: all.
    """

    def __init__(
        self,
        classes: PodClasses | None = None,
        schedulers: Collection[str] | None = None,
        cluster: ClusterState | None = None,
    ) -> None:
        super().__init__(cluster if cluster is not None else ClusterState())
        self.classes = classes if classes is not None else PodClasses()
        self._schedulers = schedulers

    def copy(self) -> Cache:
        """Return a copy of the cluster for another thread, without open trials.

        Pods and objects are shared, so do not assume pods in the copy that are pending here. In the
        same thread use a trial: its cost depends on the changes, not on the size of the cluster.
        """
        # The copy gets its own PodClasses, because interning is not safe for threads.
        made = Cache(self.classes.fresh(), self._schedulers, self.cluster.copy())
        made.held, made.assumed = dict(self.held), set(self.assumed)
        made.placed.on_unknown_nodes = {n: dict(p) for n, p in self.placed.on_unknown_nodes.items()}
        return made

    def drop_all(self) -> None:
        """Drop everything. Others may still refer to the cache, but must not use it any more."""
        for part in (self.columns, self.cluster, self):
            vars(part).clear()

    def is_responsible_for(self, scheduler_name: str) -> bool:
        """Whether pods with this schedulerName are scheduled here."""
        return self._schedulers is None or scheduler_name in self._schedulers

    # ------------------------------------------------------------------ informers

    def apply(self, kind: str, old: Any | None, new: Any | None) -> Applied:
        """Apply an informer's event: no ``old`` means added, no ``new`` means deleted.

        Raises QuantityError for an amount that is not a quantity, with the object as a note, and
        then changes nothing.
        """
        try:
            trial = self.cluster.open_trial
            if trial is None:
                return self._apply(kind, old, new)
            meta = (new if new is not None else old).metadata  # type: ignore[union-attr]
            key = (kind, meta.namespace, meta.name)
            return trial.apply_beneath(key, lambda: self._apply(kind, old, new))
        except QuantityError as error:
            assert new is not None  # Removing an object reads no amount.
            error.add_note(f'{kind} "{object_key(new)}"')
            raise

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
            change = deletion_of(held.info)
            anomaly = Anomaly(AnomalyKind.UNASSIGNED, info.key, held.info.node_name)
            return Applied((change,), PendingChange(None, info), anomaly)
        # Nominations by other schedulers do not count, as in kube-scheduler.
        if self.is_responsible_for(info.cls.scheduler_name):
            self.nominator.update(known, info)
        if info.group and (known is None or _member_of(known) != _member_of(info)):
            # Only the other members of its group may wait for a pod that has no node yet.
            change = Change(UNSCHEDULED_POD_ADD, None, info.pod)
            return Applied((change,), PendingChange(known, info))
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
        if held is not None and (anomaly is not None or held.info.cls is not info.cls):
            # It is elsewhere than was assumed, or was changed meanwhile: it may request less.
            return Applied((deletion_of(held.info), change), pending, anomaly)
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
        change = deletion_of(held.info)
        # Bound, but deleted before the informer saw it with its node.
        assumed = held.stage is Stage.ASSUMED
        return Applied((change,), PendingChange(known, None, assumed=True) if assumed else None)


def _member_of(pod: PodInfo) -> tuple[str, int | None]:
    """Return the group of a pod, and how many members have to start together, as its labels say."""
    return pod.group, label_min_count(pod.pod)


def _apply_object(cluster: ClusterState, kind: str, old: Any | None, new: Any | None) -> Applied:
    """Apply an event about an object that is neither a Pod nor a Node."""
    meta = (new if new is not None else old).metadata  # type: ignore[union-attr]
    if new is not None:
        cluster.put(kind, new)
    else:
        cluster.delete(kind, meta.namespace, meta.name)
    if old is None:
        action = ActionType.ADD
    else:
        action = ActionType.DELETE if new is None else ActionType.UPDATE
    # After the object is replaced, because the assumption is compared with the new object.
    if (assumed := cluster.assumed_kinds.get(kind)) is not None:
        dropped = assumed.drop_if_outdated(meta.namespace, meta.name)
        if dropped is not None and (new is None or new.metadata.uid != dropped.metadata.uid):
            # It is gone. As in kube-scheduler, what was assumed of it, such as devices, is free.
            old = dropped
    resource = OBJECT_RESOURCES.get(kind)
    if resource is None:
        return NOTHING
    return Applied((Change(ClusterEvent(resource, action), old, new),))
