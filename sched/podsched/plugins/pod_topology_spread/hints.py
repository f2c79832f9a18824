"""Queueing hints of PodTopologySpread: which events can make a rejected pod fit.

Rules: ``isSchedulableAfterPodChange`` and ``isSchedulableAfterNodeChange`` of kube-scheduler v1.36
(``podtopologyspread/plugin.go``). It answers QueueSkip for new labels of the pod itself if its
constraints still match it or still do not, so the pod waits for the next flush of
unschedulablePods. Here the answer is Queue: labels also decide which default constraints apply, and
which pods matchLabelKeys count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.pods import PodInfo
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
        pod = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint.on(
                Resource.POD,
                pod | ActionType.DELETE,
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
        keys = [constraint.topology_key for constraint in self._hard(pod)]
        before, after = _has_all(old, keys), _has_all(new, keys)
        if old is None or new is None:
            return QueueingHint.of(before or after)
        if before != after:
            return QueueingHint.QUEUE
        labels, others = old.metadata.labels, new.metadata.labels
        moved = any(labels.get(key, "") != others.get(key, "") for key in keys)
        return QueueingHint.of(after and (moved or old.spec.taints != new.spec.taints))


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
    own = new.metadata.uid == pod.uid
    if own and any(c.honor_taints for c in hard) and old.spec.tolerations != new.spec.tolerations:
        return True
    before, after = old.metadata.labels, new.metadata.labels
    if before == after:
        return False
    return own or any(c.selector.matches(before) != c.selector.matches(after) for c in hard)


def _has_all(node: v1.Node | None, keys: Sequence[str]) -> bool:
    return node is not None and all(key in node.metadata.labels for key in keys)
