"""NodeAffinity: nodeSelector, required and preferred node affinity, and a profile's addedAffinity.

Rules: kube-scheduler v1.36 ``framework/plugins/nodeaffinity``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podsched.api.node_selectors import (
    NodeTerm,
    NodeTerms,
    compile_node_selector,
    compile_node_term,
)
from podsched.api.selectors import Requirement as LabelRequirement
from podsched.config.plugin_args import NodeAffinityArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.plugin import FIXED_INPUTS, CycleState, Handle, PreFilterResult, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.plugins.pods import once_per_class
from podsched.plugins.rows.matching import match_labels, match_requirement, match_term, match_terms
from podsched.plugins.rows.normalize import default_normalize
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class RequiredAffinity:
    """What a pod requires of its node's labels and name."""

    node_selector: dict[str, str]
    terms: NodeTerms | None

    def match(self, nodes: NodeColumns, rows: Rows) -> Bools:
        """Return for each row whether its node meets the requirements."""
        result = match_labels(self.node_selector, nodes, rows)
        if self.terms is not None:
            result &= match_terms(self.terms, nodes, rows)
        return result

    def matches_node(self, node: v1.Node) -> bool:
        """Return whether a node message meets the requirements."""
        labels = node.metadata.labels
        if any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.terms is None or self.terms.matches(labels, node.metadata.name)


@once_per_class
def required_affinity(pod: PodInfo) -> RequiredAffinity:
    """Return the compiled nodeSelector and required node affinity of a pod."""
    selector = _required(pod.cls.spec.affinity.node_affinity)
    terms = None if selector is None else compile_node_selector(selector)
    return RequiredAffinity(dict(pod.cls.spec.node_selector), terms)


class NodeAffinity:
    """PreFilter narrows to nodes named in matchFields; Filter and Score match labels and names."""

    name: ClassVar[str] = "NodeAffinity"
    traits: ClassVar[Traits] = Traits.of_spec(
        reads_only_nodes=True,
        depends_on_feasible=False,
        normalizes_by_extremes=True,
    )

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        added = args.added_affinity or v1.NodeAffinity()
        required = _required(added)
        self._added = None if required is None else compile_node_selector(required)
        self._added_preferred = _preferred_terms(added)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return node selector and node affinity."""
        spec = pod.cls.spec
        return (
            frozenset(spec.node_selector.items()),
            spec.affinity.node_affinity.SerializeToString(),
        )

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return FIXED_INPUTS: the results depend only on the pod's class and the row."""
        return FIXED_INPUTS

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Return the named nodes if every required term names nodes by ``metadata.name``.

        If each term's name conditions contradict each other, the pod is unresolvable.
        """
        selector = _required(pod.cls.spec.affinity.node_affinity)
        if selector is None and self._added is None and not pod.cls.spec.node_selector:
            return PreFilterResult(SKIP)
        if selector is None or not selector.node_selector_terms:
            return PreFilterResult()
        names: set[str] = set()
        for term in selector.node_selector_terms:
            own = _term_names(term)
            if own is None:
                return PreFilterResult()
            names |= own
        if not names:
            return PreFilterResult(unresolvable(REASON_CONFLICT))
        return PreFilterResult(node_names=frozenset(names))

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes that addedAffinity or the pod's own affinity does not match."""
        verdicts = Verdicter(len(rows))
        unresolvably = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        matches = required_affinity(pod).match(nodes, rows)
        if self._added is not None:
            enforced = match_terms(self._added, nodes, rows)
            verdicts.flag(~enforced, unresolvably, REASON_ENFORCED)
            # kube-scheduler returns at the first mismatch, so such a node has only this reason.
            matches |= ~enforced
        verdicts.flag(~matches, unresolvably, REASON)
        return verdicts.done()

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return each label of the node selector, and each condition of a single required term.

        Several terms are one requirement, because a node has to match only one of them.
        """
        required = required_affinity(pod)
        found = [
            Requirement.met(f"label {key}={value}", match_labels({key: value}, nodes, rows))
            for key, value in sorted(required.node_selector.items())
        ]
        terms = required.terms.terms if required.terms is not None else ()
        if len(terms) == 1:
            found += [
                Requirement.met(_shown(each), match_term(NodeTerm((), (each,)), nodes, rows))
                for each in terms[0].fields
            ]
            found += [
                Requirement.met(_shown(each), match_requirement(each, nodes, rows))
                for each in terms[0].expressions
            ]
        elif required.terms is not None:
            matches = match_terms(required.terms, nodes, rows)
            found.append(Requirement.met(f"one of {len(terms)} nodeSelectorTerms", matches))
        return found

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Skip pods without preferences."""
        preferred = _preferred_terms(pod.cls.spec.affinity.node_affinity)
        if not preferred and not self._added_preferred:
            return SKIP
        state.data[self.name] = preferred
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return the sum of the weights of the preferred terms that match."""
        total = np.zeros(len(rows), dtype=np.int64)
        for weight, term in (*self._added_preferred, *state.data[self.name]):
            total += weight * match_term(term, nodes, rows)
        return total

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map the highest sum to 100."""
        return default_normalize(scores)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes added or with other labels."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint.on(
                Resource.NODE, node, self._after_node_change, index=_index_of_nodes
            )
        ]

    def _after_node_change(
        self, pod: PodInfo, old: v1.Node | None, new: v1.Node | None
    ) -> QueueingHint:
        # kube-scheduler compares the old node only with the pod's own affinity. So a node that is
        # relabelled to match addedAffinity would not wake a pod whose own affinity it matched
        # before.
        matches = new is not None and self._matches(pod, new)
        return QueueingHint.of(matches and (old is None or not self._matches(pod, old)))

    def _matches(self, pod: PodInfo, node: v1.Node) -> bool:
        added = self._added
        if added is not None and not added.matches(node.metadata.labels, node.metadata.name):
            return False
        return required_affinity(pod).matches_node(node)


def _shown(requirement: LabelRequirement) -> str:
    """Return a condition on a label or on the node's name as text, such as ``label a in (b,c)``."""
    key, values = requirement.key, ",".join(sorted(requirement.values))
    if key == NAME_FIELD:
        return f"{key} {requirement.operator.lower()} ({values})"
    forms = {
        "In": f"label {key} in ({values})",
        "NotIn": f"label {key} notin ({values})",
        "Exists": f"label {key}",
        "DoesNotExist": f"no label {key}",
        "Gt": f"label {key}>{values}",
        "Lt": f"label {key}<{values}",
    }
    return forms[requirement.operator]


def _index_of_nodes() -> KeyedIndex:
    """Return an index of pods by a label or node name that they require.

    A node must meet all requirements of a node selector, and one of the terms. So one requirement
    of the selector suffices as the key, else one of each term. If a term only requires that labels
    or values are absent, there is no key, and the hint is called for every node.
    """
    return KeyedIndex(_keys_of_pod, _keys_of_node)


def _keys_of_pod(pod: PodInfo) -> Sequence[Hashable] | None:
    """Return keys, at least one of which a node that fits has; None: any node may fit."""
    spec = pod.cls.spec
    for pair in spec.node_selector.items():
        return (pair,)
    selector = _required(spec.affinity.node_affinity)
    if selector is None:
        return None
    keys: list[Hashable] = []
    for term in selector.node_selector_terms:
        own = _keys_of_term(term)
        if own is None:
            return None
        keys += own
    return keys


def _keys_of_term(term: v1.NodeSelectorTerm) -> Sequence[Hashable] | None:
    """Return keys, at least one of which a node that matches the term has; None: unknown."""
    if not term.match_fields and not term.match_expressions:
        return ()  # It matches no node.
    names = _term_names(term)
    if names is not None:
        # Three elements, so that a name never equals the (key, value) of a label.
        return [(NAME_FIELD, name, True) for name in names]
    for requirement in term.match_expressions:
        if requirement.operator == "In":
            return [(requirement.key, value) for value in requirement.values]
        if requirement.operator in ("Exists", "Gt", "Lt"):
            return [requirement.key]
    return None


def _keys_of_node(old: v1.Node | None, new: v1.Node | None) -> Iterable[Hashable] | None:
    if new is None:
        return ()
    labels = new.metadata.labels
    return [(NAME_FIELD, new.metadata.name, True), *labels, *labels.items()]


def _required(affinity: v1.NodeAffinity) -> v1.NodeSelector | None:
    if not affinity.HasField("required_during_scheduling_ignored_during_execution"):
        return None
    return affinity.required_during_scheduling_ignored_during_execution


def _term_names(term: v1.NodeSelectorTerm) -> frozenset[str] | None:
    """Return the node names that a term's matchFields allow; None if they do not restrict names."""
    names: frozenset[str] | None = None
    for requirement in term.match_fields:
        if requirement.key == NAME_FIELD and requirement.operator == "In":
            values = frozenset(requirement.values)
            names = values if names is None else names & values
    return names


def _preferred_terms(affinity: v1.NodeAffinity) -> list[tuple[int, NodeTerm]]:
    return [
        (term.weight, compile_node_term(term.preference))
        for term in affinity.preferred_during_scheduling_ignored_during_execution
        if term.weight
    ]
