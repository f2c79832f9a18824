"""Decide which events can help a pod that NodeResourcesFit rejected.

The *room* of a node is the free amount of each resource, and the number of pods that it still
accepts. After a pod was deleted or scaled down, the waiting pod is woken if it now fits on that
node

* beside the pods on the node and the pods of at least its priority that are nominated to it, or
* after preempting all pods of lower priority, if it could not have preempted the deleted pod. If it
  could, preemption would have made the same room before. A pod of a queue may preempt the pods of
  queues instead, whatever their priorities.

kube-scheduler (v1.36, ``isSchedulableAfterPodEvent``) wakes every rejected pod after a deletion.
Here pods may be deleted from a full cluster without waking pods that still do not fit. A pod that
is nominated to the node is always woken, because its victims leave the node.

The room of resources that devices may provide is not compared, because it depends on the node
whether devices provide them. So a pod may be woken that still does not fit.

The cache applies an event before the queue gets it, so hints read the room after the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from podsched.api.extended_resources import CLASS_RESOURCE_PREFIX
from podsched.api.resources import PODS, allocatable_in_units, requests_in_units
from podsched.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.hint_index import ThresholdIndex
from podsched.framework.local_queues import local_queue
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodClass, PodInfo
from podsched.plugins.node_resources.compared_requests import ComparedRequests
from podsched.plugins.pods import node_or_nominated
from podsched.v1 import objects_pb2 as v1

NEVER = "Never"


class FitEvents:
    """The events that NodeResourcesFit registers, with their hints and indexes."""

    def __init__(self, compared: ComparedRequests, cluster: ClusterView) -> None:
        self._compared = compared
        self._cluster = cluster
        #: The last result of ``_room``, with its row and versions.
        self._latest: tuple[tuple[int, int, int], dict[str, int]] | None = None

    def registrations(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted and scaled down pods, for nodes, and for DeviceClasses."""
        gone = ClusterEvent(Resource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        node = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        return [
            ClusterEventWithHint(gone, self.after_pod_event, index=self._index_of_room),
            ClusterEventWithHint(
                gone, self.after_victim_gone, per_pod=True, pods=self._nominated_there
            ),
            ClusterEventWithHint.on(
                Resource.NODE, node, self.after_node_change, index=self._index_of_nodes
            ),
            ClusterEventWithHint.on(
                Resource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE, after_class_change
            ),
        ]

    def _demand(self, cls: PodClass) -> Mapping[str, int]:
        return self._compared.demand(cls, self._cluster)

    # ------------------------------------------------------------------ pods

    def after_pod_event(self, pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
        """Answer Queue if the pod now fits on the node of a pod that was deleted or scaled down."""
        if new is not None and new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        wanted = self._demand(pod.cls)
        if old is None or (new is not None and not _freed(old, new, wanted)):
            return QueueingHint.SKIP
        return QueueingHint.of(self._has_room(pod, _node_of(old, new), old))

    def _has_room(self, pod: PodInfo, node_name: str, gone: v1.Pod) -> bool:
        """Return whether a pod may fit on the node after the pod ``gone`` left."""
        cluster, cls = self._cluster, pod.cls
        row = cluster.nodes.row_of(node_name)
        if row is None:
            return False
        room, wanted = self._room(row), self._demand(cls)
        nominated = cluster.nominator.pods(node_name)
        first = (self._demand(p.cls) for p in nominated if p.priority >= cls.priority)
        _add(room, wanted, first, -1)
        if _fits(wanted, room):
            return True
        there = cluster.nodes.pods(row).values()
        if cluster.list("LocalQueue") and local_queue(cluster, pod):
            victims = [p for p in there if local_queue(cluster, p)]
        elif cls.preemption_policy == NEVER or gone.spec.priority < cls.priority:
            return False
        else:
            victims = [p for p in there if p.priority < cls.priority]
        _add(room, wanted, (self._demand(p.cls) for p in victims))
        return _fits(wanted, room)

    def _room(self, row: int) -> dict[str, int]:
        """Return the room of a node by resource, as a new dict.

        The last result is kept, because the index and the hints of an event read the same node.
        """
        nodes = self._cluster.nodes
        moment = (row, nodes.position, nodes.nodes_version)
        if self._latest is not None and self._latest[0] == moment:
            return self._latest[1].copy()
        room = {
            name: nodes.allocatable(name).item(row) - nodes.requested(name).item(row)
            for name in nodes.node(row).status.allocatable
        }
        room[PODS] = nodes.allowed_pod_number.item(row) - nodes.pod_count.item(row)
        self._latest = (moment, room.copy())
        return room

    def _index_of_room(self) -> ThresholdIndex:
        """Return an index of pods by requests; it compares them with a node's room.

        The room includes the requests of all pods with a lower priority than the deleted pod, and
        of those of queues: at least as much as a waiting pod could get by preemption.
        """

        def supply(old: v1.Pod | None, new: v1.Pod | None) -> Mapping[str, int] | None:
            cluster = self._cluster
            if old is None or (row := cluster.nodes.row_of(_node_of(old, new))) is None:
                return {}
            limit = old.spec.priority
            room, there = self._room(row), cluster.nodes.pods(row).values()
            queues = bool(cluster.list("LocalQueue"))
            lower = (p for p in there if p.priority < limit or (queues and local_queue(cluster, p)))
            _add(room, room, (self._demand(p.cls) for p in lower))
            return room

        return ThresholdIndex(lambda pod: self._demand(pod.cls), supply)

    def after_victim_gone(
        self, pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None
    ) -> QueueingHint:
        """Answer Queue if the pod is nominated to the event's node, even if it does not fit yet.

        When its last victim is gone, it fits or has to preempt others.
        """
        mine = self._cluster.nominator.node_of(pod.uid)
        there = bool(mine) and old is not None and _node_of(old, new) == mine
        return QueueingHint.QUEUE if there else QueueingHint.SKIP

    def _nominated_there(self, old: v1.Pod | None, new: v1.Pod | None) -> Iterable[str]:
        if old is None:
            return ()
        return [pod.uid for pod in self._cluster.nominator.pods(_node_of(old, new))]

    # ------------------------------------------------------------------ nodes

    def after_node_change(
        self, pod: PodInfo, old: v1.Node | None, new: v1.Node | None
    ) -> QueueingHint:
        """Answer Queue if the empty node has room for the pod and has gained allocatable."""
        if new is None:
            return QueueingHint.SKIP
        wanted = self._demand(pod.cls)
        now = allocatable_in_units(new.status.allocatable)
        if not _fits(wanted, now):
            return QueueingHint.SKIP
        if old is None:
            return QueueingHint.QUEUE
        before = allocatable_in_units(old.status.allocatable)
        devices = self._compared.left(pod.cls, self._cluster)
        # On a node without allocatable of them, devices may provide resources, and these are not
        # compared.
        grown = any(now.get(name, 0) > before.get(name, 0) for name in (*wanted, *devices))
        return QueueingHint.of(grown or not all(now.get(name, 0) for name in devices))

    def _index_of_nodes(self) -> ThresholdIndex:
        """Return an index of pods by requests; it compares them with a node's allocatable."""

        def supply(old: v1.Node | None, new: v1.Node | None) -> Mapping[str, int] | None:
            return None if new is None else allocatable_in_units(new.status.allocatable)

        return ThresholdIndex(lambda pod: self._demand(pod.cls), supply)


def after_class_change(
    pod: PodInfo, old: v1.DeviceClass | None, new: v1.DeviceClass | None
) -> QueueingHint:
    """Answer Queue if the class now provides a resource that the pod requests."""
    if new is None:
        return QueueingHint.SKIP
    names = {new.spec.extended_resource_name}
    if old is None:
        names.add(CLASS_RESOURCE_PREFIX + new.metadata.name)
    else:
        names.discard(old.spec.extended_resource_name)
    return QueueingHint.of(not names.isdisjoint(pod.cls.requests))


def _node_of(old: v1.Pod, new: v1.Pod | None) -> str:
    """Return the node of the event's pod; of a deleted pod without one, the nominated node."""
    return node_or_nominated(old) if new is None else new.spec.node_name


def _freed(old: v1.Pod, new: v1.Pod, wanted: Mapping[str, int]) -> bool:
    before, after = requests_in_units(old), requests_in_units(new)
    return any(before.get(name, 0) > after.get(name, 0) for name in wanted)


def _fits(wanted: Mapping[str, int], room: Mapping[str, int]) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in wanted.items())


def _add(
    room: dict[str, int], names: Iterable[str], demands: Iterable[Mapping[str, int]], sign: int = 1
) -> None:
    """Add demands, times ``sign``, to the room of the named resources."""
    for demand in demands:
        for name in names:
            room[name] = room.get(name, 0) + sign * demand.get(name, 0)
