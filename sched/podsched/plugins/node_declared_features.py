"""NodeDeclaredFeatures: a node fits if it declares all features that the pod needs.

Rules: kube-scheduler v1.36 ``framework/plugins/nodedeclaredfeatures``. Of the features of v1.36,
two can be needed by a pod that waits for a node: the restart rule RestartAllContainers, and a user
namespace in the node's network. The others are needed for a resize, and only pods that have a node
are resized.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import FIXED_INPUTS, CycleState, PreFilterResult, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Code
from podsched.framework.verdicts import Rows, Verdicts, rejecting
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) didn't match Pod's required features"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures(WithoutArgs):
    """Filter: the features inferred from the pod are among ``status.declaredFeatures``."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    traits: ClassVar[Traits] = Traits.of_spec(reads_only_nodes=True)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return required_features(pod.cls.spec)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return FIXED_INPUTS

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        needed = required_features(pod.cls.spec)
        if not needed:
            return PreFilterResult(SKIP)
        state.data[self.name] = needed
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        needed: frozenset[str] = state.data[self.name]
        declared = (nodes.node(row).status.declared_features for row in rows.tolist())
        lacking = np.array([not needed.issubset(found) for found in declared], dtype=np.bool_)
        return rejecting(lacking, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        actions = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        pod = ActionType.UPDATE
        return [
            ClusterEventWithHint.on(Resource.NODE, actions, _after_node_change),
            ClusterEventWithHint.on(Resource.UNSCHEDULABLE_POD, pod, _after_own_update),
        ]


def required_features(spec: v1.PodSpec) -> frozenset[str]:
    """Return the features that a node must declare to run the pod."""
    containers = (*spec.containers, *spec.init_containers)
    rules = (rule for container in containers for rule in container.restart_policy_rules)
    needed = set()
    if any(rule.action == "RestartAllContainers" for rule in rules):
        needed.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.HasField("host_users") and not spec.host_users:
        needed.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(needed)


def _after_node_change(pod: PodInfo, old: v1.Node | None, new: v1.Node | None) -> QueueingHint:
    if old is None or new is None:
        return QueueingHint.QUEUE
    return QueueingHint.of(list(old.status.declared_features) != list(new.status.declared_features))


def _after_own_update(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    if old is None or new is None or new.metadata.uid != pod.uid:
        return QueueingHint.SKIP
    return QueueingHint.of(required_features(old.spec) != required_features(new.spec))
