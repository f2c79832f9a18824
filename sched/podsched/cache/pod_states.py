"""The states of the pods that have a node, bound or assumed, and the transitions between them.

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
``PendingChange`` tells its binding cycle, which gives up and forgets the pod, or finishes if the
pod was bound before.

Invariants, checked from scratch by ``invariants.check``: each pod held here is in ``placed`` once,
and none is nominated.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsched.api.objects import copy_of
from podsched.cache.changes import Anomaly, AnomalyKind, Change
from podsched.cache.objects import ClusterState
from podsched.cache.placed_pods import PlacedPods
from podsched.framework.events import ASSIGNED_POD_DELETE
from podsched.framework.pods import PodInfo


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


class PodStates:
    """The pods that have a node, in the columns of a cluster."""

    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.columns = cluster.columns
        self.nominator = cluster.nominator
        self.placed = PlacedPods(self.columns, cluster.orders)
        #: By uid, every pod that counts on a node, known or unknown; others only read it.
        self.held: dict[str, HeldPod] = {}
        #: The uids of the pods of ``held`` in stage ASSUMED, so that counting them is O(1).
        self.assumed: set[str] = set()

    def scheduled_members(self, group: str) -> list[PodInfo]:
        """Return the pods of a PodGroup ("namespace/name") that have a node, assumed ones too."""
        held = (self.held.get(pod.uid) for pod in self.cluster.members(group))
        return [one.info for one in held if one is not None]

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

    def finish_binding(self, uid: str) -> Change | None:
        """Note that the pod is bound; no effect if the pod was added or deleted meanwhile.

        If the informer has only shown its deletion, it is removed now; returns the event of that.
        """
        if (held := self.held.get(uid)) is None:
            return None
        known = self.cluster.pods.get(held.info.key)
        if known is None or known.uid != uid:
            self.remove_pod(uid)
            return deletion_of(held.info)
        # Not by ``_replace``, which takes three times as long.
        self.held[uid] = HeldPod(held.info, held.stage, binding_finished=True)
        return None

    def forget(self, pod: PodInfo) -> Change:
        """Remove an assumed pod, clear ``pod.node_name`` and return the pod's deletion event.

        Raises CacheError if the pod is not assumed.
        """
        if pod.uid not in self.assumed:
            raise CacheError(f"pod {pod.key} ({pod.uid}) wasn't assumed so cannot be forgotten")
        info = self.held[pod.uid].info
        self.remove_pod(pod.uid)
        # First, because the event names the node.
        change = deletion_of(info)
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
        # As in kube-scheduler, the informer is right: another client may have bound an assumed pod.
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


def deletion_of(pod: PodInfo) -> Change:
    """Return the event that a pod left its node.

    An assumed pod's message has no nodeName yet, but hints read it, so the event has a copy with
    the node's name.
    """
    message = pod.pod
    if message.spec.node_name != pod.node_name:
        message = copy_of(message)
        message.spec.node_name = pod.node_name
    return Change(ASSIGNED_POD_DELETE, message, None)
