"""Queueing hints of InterPodAffinity: which events can make a rejected pod fit.

Rules: ``isSchedulableAfterPodChange`` and ``isSchedulableAfterNodeChange`` of kube-scheduler v1.36
(``interpodaffinity/plugin.go``). In these cases kube-scheduler answers QueueSkip although the pod
fits now, so it waits for the next flush of unschedulablePods (5 minutes). Here the answer is Queue:

* a pod was deleted that one of several anti-affinity terms matched (fixed in v1.37);
* a term has a namespaceSelector;
* the pod's affinity terms match the pod itself, and the last other pod that they match is gone, or
  its node has lost a topology key: the pod may now be the first of its kind;
* a node was added or relabelled, and the anti-affinity of other pods rejected the pod;
* a node was deleted before its pods, which do not count any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podsched.framework.events import QueueingHint
from podsched.framework.plugin import Handle
from podsched.framework.pods import PodInfo
from podsched.plugins.inter_pod_affinity.relations import RelationsIndex
from podsched.plugins.inter_pod_affinity.terms import (
    NO_LABELS,
    AffinityTerm,
    PodTerms,
    compile_terms,
    namespace_labels,
    resolved,
    terms_of,
)
from podsched.plugins.pods import node_or_nominated
from podsched.v1 import objects_pb2 as v1


class AffinityHints:
    """The hint functions; they look up namespaces through the handle."""

    def __init__(self, handle: Handle, index: RelationsIndex) -> None:
        self._handle, self._index = handle, index
        #: The other pod of the last call and its compiled terms: a hint is called for many waiting
        #: pods with the same event.
        self._others: tuple[v1.Pod | None, PodTerms] = (None, PodTerms())

    def after_pod_change(
        self, pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None
    ) -> QueueingHint:
        """Answer Queue if a pod that was added, deleted or relabelled can make ``pod`` fit."""
        if old is not None and new is not None and new.metadata.uid == pod.uid:
            return QueueingHint.QUEUE
        if not all(node_or_nominated(changed) for changed in (old, new) if changed is not None):
            return QueueingHint.SKIP
        terms = terms_of(pod.cls)
        near = self._resolved(terms.required_affinity)
        far = self._resolved(terms.required_anti_affinity)
        was_near, is_near = _all_match(near, old), _all_match(near, new)
        if is_near and not was_near:
            return QueueingHint.QUEUE
        # The matching pod is gone, and the pod may be the first of its kind.
        if was_near and not is_near and all(term.matches_pod(pod) for term in near):
            return QueueingHint.QUEUE
        if any(_matches(term, old) and not _matches(term, new) for term in far):
            return QueueingHint.QUEUE
        gone = old is not None and new is None and self._repelled(pod, old)
        return QueueingHint.QUEUE if gone else QueueingHint.SKIP

    def after_node_change(
        self, pod: PodInfo, old: v1.Node | None, new: v1.Node | None
    ) -> QueueingHint:
        """Answer Queue if a node that was added, relabelled or deleted can make ``pod`` fit."""
        if new is None:
            return QueueingHint.QUEUE
        terms, labels = terms_of(pod.cls), new.metadata.labels
        if old is None:
            keys = [term.topology_key for term in terms.required_affinity]
            helps = not keys or bool(terms.required_anti_affinity)
            return QueueingHint.of(helps or any(key in labels for key in keys))
        relations, _ = self._index.of(pod, self._handle.cluster)
        left = [key for key, _ in relations.repelled]
        left += (term.topology_key for term in terms.required_anti_affinity)
        if all(term.matches_pod(pod) for term in self._resolved(terms.required_affinity)):
            left += (term.topology_key for term in terms.required_affinity)
        return QueueingHint.of(_relabelling_helps(terms, left, old.metadata.labels, labels))

    def _resolved(self, terms: Sequence[AffinityTerm]) -> list[AffinityTerm]:
        return [resolved(term, self._handle.cluster) for term in terms]

    def _repelled(self, pod: PodInfo, other: v1.Pod) -> bool:
        """Return whether a required anti-affinity term of the other pod matches the pod."""
        if self._others[0] is not other:
            self._others = (other, compile_terms(other.spec, other.metadata.namespace))
        terms = self._others[1].required_anti_affinity
        if not terms:
            return False
        labels = namespace_labels(pod.namespace, self._handle.cluster)
        return any(term.matches(pod.namespace, pod.cls.labels, labels) for term in terms)


def _matches(term: AffinityTerm, pod: v1.Pod | None) -> bool:
    if pod is None:
        return False
    return term.matches(pod.metadata.namespace, pod.metadata.labels, NO_LABELS)


def _all_match(terms: Sequence[AffinityTerm], pod: v1.Pod | None) -> bool:
    return bool(terms) and all(_matches(term, pod) for term in terms)


def _relabelling_helps(
    terms: PodTerms, left: Sequence[str], old: Mapping[str, str], new: Mapping[str, str]
) -> bool:
    """Return whether a node's changed labels can help a pod with these terms.

    They help if the topology key of an affinity term got a new value, or if a key in ``left`` lost
    its old one. These are the keys of anti-affinity terms, of the pod and of others, and those of
    affinity terms if the pod may be the first of its kind.
    """
    # Only other pods' anti-affinity can have rejected the pod, also that of nominated pods.
    if not terms.required:
        return old != new
    for term in terms.required_affinity:
        key = term.topology_key
        if key in new and old.get(key) != new[key]:
            return True
    return any(key in old and old[key] != new.get(key) for key in left)
