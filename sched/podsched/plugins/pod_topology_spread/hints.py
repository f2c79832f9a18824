"""Queueing hints of PodTopologySpread: which events can make a rejected pod fit.

Rules: ``isSchedulableAfterPodChange`` and ``isSchedulableAfterNodeChange`` of kube-scheduler v1.36
(``podtopologyspread/plugin.go``). In these cases it answers QueueSkip although the pod may fit
now, so the pod waits for the next flush of unschedulablePods. Here the answer is Queue:

* The pod itself has new labels, but its constraints still match it or still do not: labels also
  decide which default constraints apply, and which pods matchLabelKeys count.
* A counted pod begins to terminate: it does not count any more.
* New labels make a node match the pod's node affinity, or not any more (nodeAffinityPolicy Honor).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.pods import PodInfo
from podsched.plugins.node_affinity import required_affinity
from podsched.plugins.pod_topology_spread.constraints import Constraint
from podsched.plugins.pods import node_or_nominated
from podsched.v1 import objects_pb2 as v1


class SpreadHints:
    """The events that PodTopologySpread registers, with their hints."""

    def __init__(self, hard: Callable[[PodInfo], Sequence[Constraint]]) -> None:
        """``hard`` returns the DoNotSchedule constraints of a pod."""
        self._hard = hard

    def registrations(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods of the namespace and for nodes."""
        pod = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        pod |= ActionType.UPDATE_POD_TOLERATION | ActionType.UPDATE_POD_TERMINATING
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint.on(
                Resource.POD,
                pod,
                self._after_pod_change,
                index=lambda: KeyedIndex(_namespace, _namespaces),
            ),
            ClusterEventWithHint.on(
                Resource.NODE, node | ActionType.DELETE, self._after_node_change
            ),
        ]

    def _after_pod_change(
        self, pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None
    ) -> QueueingHint:
        if not all(_is_involved(changed, pod) for changed in (old, new) if changed is not None):
            return QueueingHint.SKIP
        hard = self._hard(pod)
        if old is not None and new is not None:
            return QueueingHint.of(_update_helps(hard, pod, old, new))
        changed = old if new is None else new
        labels = None if changed is None else changed.metadata.labels
        return QueueingHint.of(labels is not None and any(c.selector.matches(labels) for c in hard))

    def _after_node_change(
        self, pod: PodInfo, old: v1.Node | None, new: v1.Node | None
    ) -> QueueingHint:
        hard = self._hard(pod)
        keys = [constraint.topology_key for constraint in hard]
        before, after = _has_all(old, keys), _has_all(new, keys)
        if old is None or new is None:
            return QueueingHint.of(before or after)
        if before != after:
            return QueueingHint.QUEUE
        labels, others = old.metadata.labels, new.metadata.labels
        moved = any(labels.get(key, "") != others.get(key, "") for key in keys)
        changed = moved or old.spec.taints != new.spec.taints
        return QueueingHint.of(after and (changed or _affinity_changes(hard, pod, old, new)))


def _namespace(pod: PodInfo) -> tuple[str]:
    return (pod.namespace,)


def _namespaces(old: v1.Pod | None, new: v1.Pod | None) -> list[str]:
    return [changed.metadata.namespace for changed in (old, new) if changed is not None]


def _is_involved(changed: v1.Pod, pod: PodInfo) -> bool:
    """Return whether it is the waiting pod, or a pod of its namespace with a (nominated) node."""
    if changed.metadata.uid == pod.uid:
        return True
    return bool(node_or_nominated(changed)) and changed.metadata.namespace == pod.namespace


def _update_helps(hard: Sequence[Constraint], pod: PodInfo, old: v1.Pod, new: v1.Pod) -> bool:
    if new.metadata.uid == pod.uid:
        tolerates = old.spec.tolerations != new.spec.tolerations
        relabelled = old.metadata.labels != new.metadata.labels
        return relabelled or (tolerates and any(c.honor_taints for c in hard))
    return any(_counts(c, old) != _counts(c, new) for c in hard)


def _counts(constraint: Constraint, pod: v1.Pod) -> bool:
    """Return whether a constraint counts a pod of its namespace that has a node."""
    terminating = pod.metadata.HasField("deletion_timestamp")
    return not terminating and constraint.selector.matches(pod.metadata.labels)


def _affinity_changes(hard: Sequence[Constraint], pod: PodInfo, old: v1.Node, new: v1.Node) -> bool:
    """Return whether another set of nodes takes part, as the pod's affinity now has it."""
    required = required_affinity(pod)
    changes = required.matches_node(old) != required.matches_node(new)
    return changes and any(c.honor_affinity for c in hard)


def _has_all(node: v1.Node | None, keys: Sequence[str]) -> bool:
    return node is not None and all(key in node.metadata.labels for key in keys)
