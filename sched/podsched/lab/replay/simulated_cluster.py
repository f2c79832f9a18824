"""A cluster in memory that runs a workload in place of API server, agents and clients.

The real scheduling loop sends it bindings, evictions and statuses, and gets every change at once. A
bound pod runs as long as in the recording; an evicted pod ends a while later; pods end with their
node. A pod that has ended gives its devices back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

from podsched.api.conditions import (
    POD_SCHEDULED,
    REASON_UNSCHEDULABLE,
    TRUE,
    is_finished,
    is_terminating,
    set_pod_condition,
)
from podsched.api.device_claims import is_claim_for, known_claim_names, released
from podsched.api.ephemeral_volumes import ephemeral_claim_name, ephemeral_volumes
from podsched.api.kinds import kind_of
from podsched.api.objects import (
    AnyObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodCondition,
    ResourceClaim,
    StorageClass,
    object_key,
)
from podsched.api.resources import readable_requests
from podsched.lab.memory_cluster import MemoryCluster, message_of
from podsched.lab.replay.history import History, PodHistory
from podsched.lab.replay.recording import Change
from podsched.lab.replay.workload import NodeSpans, Workload
from podsched.serve.agent.volume_index import BIND_COMPLETED
from podsched.serve.agent.volumes import SELECTED_NODE, provisioned
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.serve.server.entries import Entry
from podsched.v1 import api_pb2 as v1

_SCHEDULED = PodCondition(type=POD_SCHEDULED, status=TRUE)


class SimulatedCluster(MemoryCluster):
    """See the module."""

    def __init__(
        self,
        workload: Workload,
        deliver: Callable[[Batch], None],
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """``now``: seconds since the start; ``later`` calls a function after some seconds."""
        super().__init__(lambda: workload.began + now())
        self._workload = workload
        self._deliver = deliver
        self._since_start = now
        self._later = later
        self._spans = NodeSpans()
        self._on_node: dict[str, set[str]] = {}
        self._histories: dict[str, PodHistory] = {}
        #: The objects as the scheduler has them.
        self._delivered: dict[tuple[str, str], AnyObject] = {}

    # ------------------------------------------------------------------ the run

    def begin(self) -> None:
        for item in self._workload.objects:
            self.apply(Change(0.0, EventType.ADDED, kind_of(item).name, object_key(item), item))

    def apply(self, change: Change) -> None:
        """Carry out a recorded change by others."""
        known = self._delivered.get((change.kind, change.key))
        if change.type is EventType.DELETED:
            self._remove(change.kind, change.key, change.item.metadata.uid)
        elif isinstance(change.item, Pod):
            self._apply_pod(change.key, change.item, known)
        else:
            if isinstance(change.item, Node):
                self._spans.seen(self._since_start(), change.item)
            self._put(change.item, known)

    def history(self) -> History:
        """Return the history after the end of the run."""
        seconds = self._workload.seconds
        return History(seconds, self._histories, self._spans.until(seconds))

    # ------------------------------------------------------------------ from MemoryCluster

    def changed(self, event: v1.EventType, entry: Entry, old: Entry | None) -> None:
        """Deliver the change, and note where pods are and when they end."""
        kind, key = entry.kind.name, entry.key
        before = self._delivered.pop((kind, key), None)
        item = None
        if event != v1.DELETED:
            item = self._delivered[kind, key] = message_of(entry)
        if isinstance(before, Pod) and item is None:
            self._histories[before.metadata.uid].ended = self._since_start()
            self._on_node.get(before.spec.node_name, set()).discard(key)
        if isinstance(item, Pod) and item.spec.node_name:
            self._on_node.setdefault(item.spec.node_name, set()).add(key)
        self._deliver(Batch(self.revision, [Event(EventType(event), kind, key, before, item)]))
        if isinstance(before, Pod) and item is None:
            self._release_claims(before)
        if self._workload.binds_volumes:
            self._bind_volume(item)

    def starts(self, pod: Pod) -> None:
        """Let a pod run on its node, and end at its time."""
        uid, key, now = pod.metadata.uid, object_key(pod), self._since_start()
        stamp = self._stamp()
        set_pod_condition(pod.status, _SCHEDULED, stamp)
        pod.status.phase = "Running"
        if not pod.status.HasField("start_time"):
            pod.status.start_time.CopyFrom(stamp)
        history = self._histories[uid]
        history.bound, history.node = now, pod.spec.node_name
        run_time = self._workload.run_times.get(uid)
        if run_time is not None:
            self._later(run_time, lambda: self._remove("Pod", key, uid))

    def _evict(self, request: v1.EvictRequest) -> Entry:
        """Evict a pod; it ends after the time that terminations took in the recording."""
        key, uid = f"{request.namespace}/{request.name}", request.preconditions.uid
        before = self._delivered.get(("Pod", key))
        wait = self._workload.termination
        graceful = deepcopy(request)
        graceful.grace_period_seconds = max(1, math.ceil(wait))
        entry = super()._evict(graceful)
        self._histories[uid].preempted = True
        if isinstance(before, Pod) and not is_terminating(before):
            self._later(wait, lambda: self._remove("Pod", key, uid))
        return entry

    def _patch_status(self, patch: v1.PodStatusPatch) -> Entry:
        entry = super()._patch_status(patch)
        if any(condition.reason == REASON_UNSCHEDULABLE for condition in patch.conditions):
            self._histories[entry.message.metadata.uid].unschedulable = True
        return entry

    # ------------------------------------------------------------------ objects

    def _apply_pod(self, key: str, item: Pod, known: AnyObject | None) -> None:
        uid, now = item.metadata.uid, self._since_start()
        if known is not None and known.metadata.uid != uid:
            self._remove("Pod", key, known.metadata.uid)  # others have made it anew meanwhile
            known = None
        pod = deepcopy(item)
        foreign = uid in self._workload.foreign
        if known is None:
            if uid in self._histories:
                return  # it has ended here
            bound = bool(pod.spec.node_name) and not is_finished(pod)
            decided = not foreign and not pod.spec.node_name
            self._histories[uid] = PodHistory(
                uid, key, readable_requests(pod), now, decided=decided, priority=pod.spec.priority
            )
            if bound:
                self.starts(pod)
        elif foreign:
            if pod.spec.node_name and self._histories[uid].bound is None:
                self.starts(pod)
            if is_finished(pod):
                self._remove("Pod", key, uid)
                return
        else:
            assert isinstance(known, Pod)
            pod.spec.node_name = known.spec.node_name
            pod.status.CopyFrom(known.status)
            del pod.status.resource_claim_statuses[:]
            pod.status.resource_claim_statuses.extend(item.status.resource_claim_statuses)
            if is_terminating(known):
                pod.metadata.deletion_timestamp.CopyFrom(known.metadata.deletion_timestamp)
        self._put(pod, known)

    def _release_claims(self, pod: Pod) -> None:
        """Give the devices of a pod back; the claims that were made for it go with it."""
        for name in known_claim_names(pod):
            key = f"{pod.metadata.namespace}/{name}"
            claim = self._delivered.get(("ResourceClaim", key))
            if not isinstance(claim, ResourceClaim):
                continue
            if is_claim_for(pod, claim):
                self.delete("ResourceClaim", key)
            elif (changed := released(claim, pod.metadata.uid)) is not None:
                self.update(changed)
        for volume in ephemeral_volumes(pod):
            key = f"{pod.metadata.namespace}/{ephemeral_claim_name(pod.metadata.name, volume)}"
            made = self._delivered.get(("PersistentVolumeClaim", key))
            if isinstance(made, PersistentVolumeClaim) and is_claim_for(pod, made):
                self.delete("PersistentVolumeClaim", key)

    def _bind_volume(self, item: AnyObject | None) -> None:
        """Provision the volume of a claim with a selected node, or bind the claim of a volume."""
        if isinstance(item, PersistentVolumeClaim):
            of = self._delivered.get(("StorageClass", item.spec.storage_class_name))
            selected = SELECTED_NODE in item.metadata.annotations
            if selected and not item.spec.volume_name and isinstance(of, StorageClass):
                made = provisioned(item, of, [])
                if ("PersistentVolume", made.metadata.name) not in self._delivered:
                    self.create(made)
        elif isinstance(item, PersistentVolume):
            ref = item.spec.claim_ref
            claim = self._delivered.get(("PersistentVolumeClaim", f"{ref.namespace}/{ref.name}"))
            if (
                isinstance(claim, PersistentVolumeClaim)
                and claim.metadata.uid == ref.uid
                and not claim.spec.volume_name
            ):
                bound = deepcopy(claim)
                bound.spec.volume_name = item.metadata.name
                bound.metadata.annotations[BIND_COMPLETED] = "yes"
                self.update(bound)

    def _put(self, item: AnyObject, known: AnyObject | None) -> None:
        if known is None:
            self.create(item)
        else:
            self.update(item)

    def _remove(self, kind: str, key: str, uid: str = "") -> None:
        """Remove an object if it exists; a node with its pods."""
        known = self._delivered.get((kind, key))
        if known is None or (uid and known.metadata.uid not in ("", uid)):
            return
        self.delete(kind, key)
        if kind == "Node":
            self._spans.gone(self._since_start(), key)
            for pod in sorted(self._on_node.pop(key, ())):
                self._remove("Pod", pod)
