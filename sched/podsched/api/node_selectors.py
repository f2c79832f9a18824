"""Node selectors: requirements on a node's labels and its name, compiled once and matched often.

They follow k8s.io/component-helpers/scheduling/corev1/nodeaffinity. Compiled selectors are
immutable, hashable and remembered by content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsched.api.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from podsched.api.selectors import Requirement, SelectorError, requirement
from podsched.lib.remembering import remember_short

# Larger selectors are compiled each time.
_CACHE = 1 << 14
_MOST_CACHED = 2000


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements on a node's labels and fields (metadata.name); all must be met.

    A term without requirements matches no node, and so does one that could not be compiled.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    valid: bool = True

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node of these labels and this name meets the term."""
        if not self.valid or not (self.expressions or self.fields):
            return False
        if not all(requirement.matches(labels) for requirement in self.expressions):
            return False
        names = {"metadata.name": name}
        return all(requirement.matches(names) for requirement in self.fields)


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """Terms of which one must match; no terms match no node."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node of these labels and this name meets one of the terms."""
        return any(term.matches(labels, name) for term in self.terms)


def compile_node_selector(selector: NodeSelector) -> NodeTerms:
    """Return the compiled form of a NodeSelector; terms that are invalid match no node."""
    return _compile_node_selector(selector.SerializeToString(deterministic=True))


@remember_short(_CACHE, _MOST_CACHED)
def _compile_node_selector(content: bytes) -> NodeTerms:
    selector = NodeSelector.FromString(content)
    return NodeTerms(tuple(map(compile_node_term, selector.node_selector_terms)))


def compile_node_term(term: NodeSelectorTerm) -> NodeTerm:
    """Return the compiled form of one term, as preferred node affinity has it."""
    try:
        return NodeTerm(
            tuple(requirement(e.key, e.operator, tuple(e.values)) for e in term.match_expressions),
            tuple(_field_requirement(e) for e in term.match_fields),
        )
    except SelectorError:
        return NodeTerm(valid=False)


def _field_requirement(expression: NodeSelectorRequirement) -> Requirement:
    if expression.operator not in ("In", "NotIn"):
        raise SelectorError(f'"{expression.operator}" is not a valid node field selector operator')
    if len(expression.values) != 1:
        raise SelectorError("must be only one value for operators In and NotIn")
    if expression.key != "metadata.name":
        raise SelectorError(f'"{expression.key}" is not a valid field selector key')
    return requirement(expression.key, expression.operator, tuple(expression.values))
