"""The input of a replay: a recording without its scheduler's decisions.

Pods arrive at their recorded times, and run as long as they did, on any node. Everything else
happens at its recorded time: nodes, claims, budgets, changes of pods by others. Claims of devices
come without the allocation that they got. Of some pods it is unknown how long they would have run:
they were preempted, lost their node, were never bound, or still ran at the end of the recording.
They run to the end, unless the annotation for hollow nodes says how long.
Non-goals: controllers. So a pod that was created because another was preempted arrives in a replay
as well.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field, replace
from statistics import median

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    POD_SCHEDULED,
    REASON_PREEMPTION_BY_SCHEDULER,
    REASON_UNSCHEDULABLE,
    TRUE,
    condition_of,
    is_finished,
    is_terminating,
)
from podsched.api.extended_resources import extended_claim_owner
from podsched.api.kinds import kind_of
from podsched.api.node_copies import NodeParts, copy_of_node
from podsched.api.objects import (
    AnyObject,
    Node,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    object_key,
)
from podsched.api.resources import readable_allocatable, readable_requests
from podsched.cache.pod_class import DEFAULT_SCHEDULER_NAME
from podsched.lab.replay.history import History, NodeSpan, PodHistory
from podsched.lab.replay.recording import Change, Recording
from podsched.lib.counted import counted
from podsched.serve.agent.pods import run_seconds
from podsched.serve.client.informer import EventType

#: Seconds from the eviction of a pod to its end, where the recording does not tell.
TERMINATION = 1.0


@dataclass(slots=True)
class Workload:
    """See the module; times are seconds since the start."""

    #: Unix time of the start.
    began: float
    seconds: float
    #: The objects at the start, in the order in which the scheduler gets them.
    objects: list[AnyObject] = field(default_factory=list)
    #: Later changes, without those of the scheduler.
    changes: list[Change] = field(default_factory=list)
    #: Seconds from binding to end by uid, where they are known.
    run_times: dict[str, float] = field(default_factory=dict)
    #: uids of the pods that others bind, all of whose changes are in ``changes``.
    foreign: set[str] = field(default_factory=set)
    termination: float = TERMINATION
    #: What happened to the pods in the recording; None if that is not known.
    recorded: History | None = None
    #: Whether volumes are provisioned and bound as soon as the scheduler asks for it. Otherwise
    #: ``changes`` contain what the controllers did.
    binds_volumes: bool = False


def workload_of(recording: Recording, schedulers: Collection[str]) -> Workload:
    """Return the workload of a recording; pods of these schedulers are decided."""
    return _Extraction(recording, schedulers).run()


def scheduler_of(pod: Pod) -> str:
    """Return the schedulerName of a pod."""
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME


class NodeSpans:
    """Collects the spans of nodes."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[float, dict[str, int]]] = {}
        self._closed: list[NodeSpan] = []

    def seen(self, at: float, node: Node) -> None:
        name, amounts = node.metadata.name, readable_allocatable(node)
        known = self._open.get(name)
        if known is not None and known[1] == amounts:
            return
        self.gone(at, name)
        self._open[name] = (at, amounts)

    def gone(self, at: float, name: str) -> None:
        known = self._open.pop(name, None)
        if known is not None:
            self._closed.append(NodeSpan(name, known[0], at, known[1]))

    def until(self, end: float) -> list[NodeSpan]:
        """Return the spans of a run that ends now."""
        for name in list(self._open):
            self.gone(end, name)
        return self._closed


class _Extraction:
    """Reads a recording once, from the first change to the last."""

    def __init__(self, recording: Recording, schedulers: Collection[str]) -> None:
        self._recording = recording
        self._schedulers = schedulers
        self._pods: dict[str, Pod] = {}
        self._histories: dict[str, PodHistory] = {}
        self._spans = NodeSpans()
        self._node_gone: dict[str, float] = {}
        self._terminating: dict[str, float] = {}
        self._terminations: list[float] = []
        #: Kinds and keys of claims that were made for a pod, and are deleted with it.
        self._generated: set[tuple[str, str]] = set()
        #: uids of pods that others ended: how long they would have run is not known.
        self._cut_short: set[str] = set()
        seconds = max(recording.seconds, 1e-3)
        self._workload = Workload(recording.began, seconds)

    def run(self) -> Workload:
        recording, workload = self._recording, self._workload
        for item in recording.objects:
            workload.objects.append(_untried(item) if isinstance(item, Pod) else item)
            if isinstance(item, Pod):
                self._pod_added(0.0, item, waited_before=not item.spec.node_name)
            elif isinstance(item, Node):
                self._spans.seen(0.0, item)
            elif isinstance(item, ResourceClaim | PersistentVolumeClaim):
                self._note_claim(item)
        for change in recording.changes:
            if change.kind == "Pod":
                self._pod_changed(change)
            else:
                self._other_changed(change)
        for history in self._histories.values():
            if history.bound is not None and history.ended is not None:
                self._run_time(history, history.bound, history.ended)
        if self._terminations:
            workload.termination = median(self._terminations)
        workload.recorded = History(
            workload.seconds, self._histories, self._spans.until(workload.seconds)
        )
        return workload

    def _run_time(self, history: PodHistory, bound: float, ended: float) -> None:
        lost_node = self._node_gone.get(history.node, ended + 1.0) <= ended
        if history.uid not in self._cut_short and not lost_node:
            self._workload.run_times[history.uid] = ended - bound

    def _other_changed(self, change: Change) -> None:
        if isinstance(change.item, ResourceClaim):
            self._claim_changed(change)
            return
        if isinstance(change.item, PersistentVolumeClaim):
            if self._is_generated(change) and _is_deletion(change):
                return
            self._note_claim(change.item)
        self._workload.changes.append(change)
        if change.type is EventType.DELETED:
            if change.kind == "Node":
                self._node_gone[change.key] = change.at
                self._spans.gone(change.at, change.key)
        elif isinstance(change.item, Node):
            self._node_gone.pop(change.key, None)
            self._spans.seen(change.at, change.item)

    def _note_claim(self, claim: ResourceClaim | PersistentVolumeClaim) -> None:
        if any(owner.kind == "Pod" for owner in claim.metadata.owner_references):
            self._generated.add((kind_of(claim).name, object_key(claim)))

    def _is_generated(self, change: Change) -> bool:
        return (change.kind, change.key) in self._generated

    def _claim_changed(self, change: Change) -> None:
        """Leave out what the scheduler does with a claim, and its deletion with its pod.

        Claims for extended resources are made by the scheduler.
        """
        claim = change.item
        assert isinstance(claim, ResourceClaim)
        if (owner := extended_claim_owner(claim)) and owner not in self._workload.foreign:
            return
        consumers = {consumer.uid for consumer in claim.status.reserved_for}
        if change.type is EventType.DELETED:
            if not self._is_generated(change):
                self._workload.changes.append(change)
        elif change.type is EventType.ADDED:
            self._note_claim(claim)
            self._workload.changes.append(change._replace(item=_unallocated(claim)))
        elif consumers & self._workload.foreign:
            self._workload.changes.append(change)

    def _pod_added(self, at: float, pod: Pod, *, waited_before: bool = False) -> None:
        uid = pod.metadata.uid
        self._pods[object_key(pod)] = pod
        ours = scheduler_of(pod) in self._schedulers and not pod.spec.node_name
        history = PodHistory(uid, object_key(pod), readable_requests(pod), at, decided=ours)
        history.priority = pod.spec.priority
        history.waited_before = waited_before
        history.unschedulable = _fits_nowhere(pod)
        self._histories[uid] = history
        span = run_seconds(pod)
        if ours and span is not None:
            self._workload.run_times[uid] = span
        if not ours and not pod.spec.node_name:
            self._workload.foreign.add(uid)
        if pod.spec.node_name and not is_finished(pod):
            history.bound, history.node = at, pod.spec.node_name

    def _pod_changed(self, change: Change) -> None:
        before = self._pods.get(change.key)
        if change.type is EventType.DELETED:
            self._pod_deleted(change, before)
            return
        pod = change.item
        assert isinstance(pod, Pod)
        if before is None or before.metadata.uid != pod.metadata.uid:
            if before is not None:
                self._ended(change.at, before)
            self._workload.changes.append(change._replace(type=EventType.ADDED))
            self._pod_added(change.at, pod)
            return
        self._pods[change.key] = pod
        history = self._histories[pod.metadata.uid]
        if pod.spec.node_name and history.bound is None and not is_finished(pod):
            history.bound, history.node = change.at, pod.spec.node_name
        history.unschedulable |= _fits_nowhere(pod)
        self._note_termination(change.at, pod, history)
        if is_finished(pod):
            self._ended(change.at, pod)
        if history.uid in self._workload.foreign or _others_part(pod) != _others_part(before):
            self._workload.changes.append(change)

    def _pod_deleted(self, change: Change, before: Pod | None) -> None:
        if before is None:
            return
        history = self._histories[before.metadata.uid]
        began = self._terminating.pop(history.uid, None)
        if began is not None and history.bound is not None and history.ended is None:
            self._terminations.append(change.at - began)
        if history.bound is None or history.uid in self._workload.foreign:
            self._workload.changes.append(change)
        self._ended(change.at, before)
        del self._pods[change.key]

    def _note_termination(self, at: float, pod: Pod, history: PodHistory) -> None:
        if not is_terminating(pod):
            return
        self._terminating.setdefault(history.uid, at)
        condition = condition_of(pod.status, DISRUPTION_TARGET)
        if condition is not None and condition.status == TRUE:
            self._cut_short.add(history.uid)
            history.preempted |= condition.reason == REASON_PREEMPTION_BY_SCHEDULER

    def _ended(self, at: float, pod: Pod) -> None:
        history = self._histories[pod.metadata.uid]
        if history.ended is None:
            history.ended = at


def _is_deletion(change: Change) -> bool:
    """Return whether an object is gone, or waits for its finalizers."""
    return change.type is EventType.DELETED or change.item.metadata.HasField("deletion_timestamp")


def _fits_nowhere(pod: Pod) -> bool:
    """Return whether the pod's status says that it fits on no node."""
    scheduled = condition_of(pod.status, POD_SCHEDULED)
    return scheduled is not None and scheduled.reason == REASON_UNSCHEDULABLE


def _untried(pod: Pod) -> Pod:
    """Return a pending pod as it was before its first attempt, because each run tries anew."""
    if pod.spec.node_name or not _fits_nowhere(pod):
        return pod
    copy = deepcopy(pod)
    kept = [each for each in pod.status.conditions if each.type != POD_SCHEDULED]
    del copy.status.conditions[:]
    copy.status.conditions.extend(kept)
    return copy


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    copy = ResourceClaim(spec=claim.spec)
    copy.metadata.CopyFrom(claim.metadata)
    copy.metadata.ClearField("finalizers")
    return copy


def _others_part(pod: Pod) -> tuple[object, ...]:
    """Return the parts that neither a scheduler nor a node writes, in comparable form."""
    spec, metadata = deepcopy(pod.spec), deepcopy(pod.metadata)
    spec.node_name = ""
    metadata.ClearField("resource_version")
    metadata.ClearField("deletion_timestamp")
    metadata.ClearField("deletion_grace_period_seconds")
    metadata.ClearField("generation")
    return (
        spec.SerializeToString(deterministic=True),
        metadata.SerializeToString(deterministic=True),
        *((of.name, of.resource_claim_name) for of in pod.status.resource_claim_statuses),
    )


def resized(workload: Workload, difference: int) -> Workload:
    """Return the workload with more nodes, like the existing ones and as equipped, or fewer.

    Raises ValueError if there are not enough nodes.
    """
    nodes = [item for item in workload.objects if isinstance(item, Node)]
    nodes.sort(key=lambda node: node.metadata.name)
    if not nodes or len(nodes) + difference < 0:
        raise ValueError(f"it begins with {counted(len(nodes), 'node')}")
    if difference >= 0:
        parts = NodeParts(workload.objects)
        added: list[AnyObject] = []
        for number in range(difference):
            like, name = nodes[number % len(nodes)], f"added-{number:04}"
            added.append(copy_of_node(like, name))
            added += parts.copies(like.metadata.name, name)
        return replace(workload, objects=[*added, *workload.objects])
    gone = {node.metadata.name for node in nodes[difference:]}
    kept = [i for i in workload.objects if not isinstance(i, Node) or i.metadata.name not in gone]
    on_them = {i.metadata.uid for i in kept if isinstance(i, Pod) and i.spec.node_name in gone}
    kept = [i for i in kept if not (isinstance(i, Pod) and i.metadata.uid in on_them)]
    changes = [
        change
        for change in workload.changes
        if not (change.kind == "Node" and change.key in gone)
        and not (change.kind == "Pod" and change.item.metadata.uid in on_them)
    ]
    return replace(workload, objects=kept, changes=changes)
