"""NodePorts: host ports must be free (kube-scheduler v1.36).

Two uses conflict when protocol and port are equal and the addresses are equal or one is 0.0.0.0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from podsched.api.host_ports import ANY_ADDRESS, HostPort, host_ports
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.plugin import FIXED_INPUTS, CycleState, PreFilterResult, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, Code
from podsched.framework.verdicts import Rows, Verdicts, rejecting
from podsched.plugins.pods import node_or_nominated
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(WithoutArgs):
    """Filter: none of the pod's host ports is in use on the node."""

    name: ClassVar[str] = "NodePorts"
    traits: ClassVar[Traits] = Traits.of_spec()

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return host_ports(pod.cls.spec)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return FIXED_INPUTS

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        ports = host_ports(pod.cls.spec)
        if not ports:
            return PreFilterResult(SKIP)
        state.data[self.name] = ports
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        return rejecting(_taken(state.data[self.name], nodes, rows), Code.UNSCHEDULABLE, REASON)

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        found = []
        for port in dict.fromkeys(state.data[self.name]):
            address, protocol, number = port
            at = "" if address == ANY_ADDRESS else f"{address}:"
            free = ~_taken((port,), nodes, rows)
            found.append(Requirement.met(f"host port {at}{number}/{protocol}", free))
        return found

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods that used one of the ports, and new nodes."""
        pod = ActionType.DELETE
        return [
            ClusterEventWithHint.on(Resource.POD, pod, _after_pod_deleted, index=_index_of_ports),
            ClusterEventWithHint.on(Resource.NODE, ActionType.ADD),
        ]


def conflicts(wanted: Iterable[HostPort], used: Mapping[HostPort, int]) -> bool:
    """Return whether a wanted port conflicts with a used one (``framework.HostPortInfo``)."""
    for address, protocol, port in wanted:
        if address == ANY_ADDRESS:
            if any(key[1] == protocol and key[2] == port for key in used):
                return True
        elif (address, protocol, port) in used or (ANY_ADDRESS, protocol, port) in used:
            return True
    return False


def _taken(wanted: tuple[HostPort, ...], nodes: NodeColumns, rows: Rows) -> Bools:
    has_ports = np.zeros(nodes.size, dtype=np.bool_)
    has_ports[nodes.rows_with_ports] = True
    taken = has_ports[rows]
    for index in np.flatnonzero(taken).tolist():
        taken[index] = conflicts(wanted, nodes.used_ports(int(rows[index])))
    return taken


def _after_pod_deleted(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    if old is None or not node_or_nominated(old):
        return QueueingHint.SKIP
    freed = dict.fromkeys(host_ports(old.spec), 1)
    return QueueingHint.of(conflicts(host_ports(pod.cls.spec), freed))


def _index_of_ports() -> KeyedIndex:
    """Return an index of the pods by the (protocol, port) that they wait for.

    The hint then compares the addresses.
    """
    return KeyedIndex(
        lambda pod: _numbers(pod.cls.spec),
        lambda old, new: () if old is None else _numbers(old.spec),
    )


def _numbers(spec: v1.PodSpec) -> set[tuple[str, int]]:
    return {(protocol, number) for _, protocol, number in host_ports(spec)}
