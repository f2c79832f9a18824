"""Compile the terms of inter-pod affinity, and define the queries that count matching pods.

Rules: kube-scheduler v1.36 ``framework/types.go`` (AffinityTerm). ``matchLabelKeys`` and
``mismatchLabelKeys`` are not read: the API server has merged them into the label selector.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from podsched.api.selectors import NOTHING, Selector, SelectorError, compile_selector
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodClass, PodInfo
from podsched.plugins.rows.queries import ContentQuery
from podsched.v1 import objects_pb2 as v1

PLUGIN: Final = "InterPodAffinity"
NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A compiled term: it selects pods by labels, and their namespaces by name or by labels."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        content = (self.namespaces, self.namespace_selector, self.selector, self.topology_key)
        object.__setattr__(self, "_hash", hash(content))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the hash, which differs from process to process."""
        content = (self.namespaces, self.namespace_selector, self.selector, self.topology_key)
        return AffinityTerm, content

    def __str__(self) -> str:
        """Return a description of the matching pods."""
        labels = str(self.selector)
        pods = "a pod of any labels" if self.selector.empty else f"a pod with {labels}"
        return f"{pods} in namespace {', '.join(sorted(self.namespaces)) or 'selected'}"

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return whether the term matches a pod of that namespace with these labels."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False

    @property
    def label_keys(self) -> Iterable[str]:
        """The keys of the pods' labels that the selector looks at."""
        return (requirement.key for requirement in self.selector.requirements or ())

    def matches_pod(self, pod: PodInfo) -> bool:
        """Return whether a term that was returned by ``resolved`` matches the pod.

        Such a term names all selected namespaces, so the labels of the pod's namespace are not
        needed.
        """
        return self.matches(pod.cls.namespace, pod.cls.labels, NO_LABELS)


Weighted = tuple[int, AffinityTerm]


@dataclass(frozen=True, slots=True)
class PodTerms:
    """All terms of a pod; preferred anti-affinity has negative weights."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[Weighted, ...] = ()
    #: Why some terms could not be compiled; they are left out.
    problem: str = ""

    @property
    def required(self) -> bool:
        """Whether there is any required term."""
        return bool(self.required_affinity or self.required_anti_affinity)

    @property
    def label_keys(self) -> set[str]:
        """The keys of all labels that the terms look at."""
        terms = (*self.required_affinity, *self.required_anti_affinity)
        preferred = (term for _, term in self.preferred)
        return {key for term in (*terms, *preferred) for key in term.label_keys}


NO_TERMS: Final = PodTerms()


def terms_of(cls: PodClass) -> PodTerms:
    """Return the compiled terms of a pod class."""
    compiled = cls.shape.plain.compiled
    found: PodTerms | None = compiled.get(PLUGIN)
    if found is None:
        found = compiled[PLUGIN] = compile_terms(cls.spec, cls.namespace)
    return found


def compile_terms(spec: v1.PodSpec, namespace: str) -> PodTerms:
    """Return the terms of the spec of a pod in that namespace."""
    affinity = spec.affinity
    if not affinity.HasField("pod_affinity") and not affinity.HasField("pod_anti_affinity"):
        return NO_TERMS
    problems: list[str] = []

    def required(terms: Iterable[v1.PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compile(term, namespace) for term in terms)
        except SelectorError as failure:
            problems.append(str(failure))
            return ()

    def preferred(terms: Iterable[v1.WeightedPodAffinityTerm], sign: int) -> tuple[Weighted, ...]:
        declared = list(terms)
        compiled = required(term.pod_affinity_term for term in declared)
        weights = (sign * term.weight for term in declared)
        # Not strict: there are no terms if one of them could not be compiled.
        return tuple(zip(weights, compiled, strict=False))

    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    return PodTerms(
        required(near.required_during_scheduling_ignored_during_execution),
        required(far.required_during_scheduling_ignored_during_execution),
        preferred(near.preferred_during_scheduling_ignored_during_execution, 1)
        + preferred(far.preferred_during_scheduling_ignored_during_execution, -1),
        ", ".join(problems),
    )


def _compile(term: v1.PodAffinityTerm, namespace: str) -> AffinityTerm:
    # The pod's own namespace counts only if the term has neither a list nor a selector; an empty
    # selector selects all namespaces (``getNamespacesFromPodAffinityTerm``).
    selected = term.HasField("namespace_selector")
    namespaces = term.namespaces or (() if selected else (namespace,))
    return AffinityTerm(
        frozenset(namespaces),
        compile_selector(term.namespace_selector if selected else None),
        compile_selector(term.label_selector if term.HasField("label_selector") else None),
        term.topology_key,
    )


def resolved(term: AffinityTerm, cluster: ClusterView) -> AffinityTerm:
    """Return a pod's own term with the namespaces that its namespaceSelector selects now.

    As in ``mergeAffinityTermNamespacesIfNotEmpty`` of kube-scheduler v1.36, the selector stays in
    the term and is later matched against no labels. So a selector that has only NotIn or
    DoesNotExist selects every namespace.
    """
    selector = term.namespace_selector
    if selector.empty or selector == NOTHING:
        return term
    selected = (
        namespace.metadata.name
        for namespace in cluster.list("Namespace")
        if selector.matches(namespace.metadata.labels)
    )
    return replace(term, namespaces=term.namespaces.union(selected))


def namespace_labels(namespace: str, cluster: ClusterView) -> Mapping[str, str]:
    """Return the labels of a namespace, or no labels if it does not exist."""
    found = cluster.get("Namespace", "", namespace)
    return NO_LABELS if found is None else dict(found.metadata.labels)


# ---------------------------------------------------------------------------------- queries


class AllTerms(ContentQuery):
    """Counts the pods that all of the resolved terms match; without terms it counts none."""

    reads_requests: ClassVar[bool] = False

    __slots__ = ("required_label", "terms")

    def __init__(self, terms: tuple[AffinityTerm, ...]) -> None:
        super().__init__(terms)
        self.terms = terms
        self.required_label = terms[0].selector.required_label if terms else None

    def counts(self, pod: PodInfo) -> int:
        return int(bool(self.terms) and all(term.matches_pod(pod) for term in self.terms))


class SomeTerms(ContentQuery):
    """Sums, for each pod, the weights of the resolved terms that match it."""

    reads_requests: ClassVar[bool] = False

    __slots__ = ("required_label", "terms")

    def __init__(self, terms: tuple[Weighted, ...]) -> None:
        super().__init__(terms)
        self.terms = terms
        alone = len(terms) == 1
        self.required_label = terms[0][1].selector.required_label if alone else None

    def counts(self, pod: PodInfo) -> int:
        return sum(weight for weight, term in self.terms if term.matches_pod(pod))


@dataclass(frozen=True, slots=True)
class TermTarget:
    """The parts of a pod that terms of other pods match."""

    namespace: str
    labels: frozenset[tuple[str, str]]
    namespace_labels: frozenset[tuple[str, str]]

    def matched_by(self, term: AffinityTerm) -> bool:
        """Return whether the term matches the pod."""
        return term.matches(self.namespace, dict(self.labels), dict(self.namespace_labels))


def concern(pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
    """Return a function: whether a required term of one pod matches the other, on any node."""
    cls, own = pod.cls, terms_of(pod.cls)
    terms = [resolved(t, cluster) for t in (*own.required_affinity, *own.required_anti_affinity)]
    labels = namespace_labels(cls.namespace, cluster)
    target = TermTarget(cls.namespace, frozenset(cls.labels.items()), frozenset(labels.items()))

    def concerns(other: PodInfo) -> bool:
        if any(term.matches_pod(other) for term in terms):
            return True
        return any(map(target.matched_by, terms_of(other.cls).required_anti_affinity))

    return concerns


@dataclass(frozen=True, slots=True)
class RepelledBy:
    """Counts each pod's required anti-affinity terms of one topology key that match the target.

    It is used on forks, because it also counts terms that no pod of the base has.
    """

    reads_requests: ClassVar[bool] = False

    target: TermTarget
    topology_key: str

    def counts(self, pod: PodInfo) -> int:
        terms = terms_of(pod.cls).required_anti_affinity
        return sum(t.topology_key == self.topology_key and self.target.matched_by(t) for t in terms)


@dataclass(slots=True)
class PodTermFamily:
    """One attribute of ``PodTerms`` as a ``TermFamily``."""

    reads_requests: ClassVar[bool] = False

    name: str
    attribute: str

    def terms(self, pod: PodInfo) -> Sequence[Hashable]:
        found: Sequence[Hashable] = getattr(terms_of(pod.cls), self.attribute)
        return found


#: Required anti-affinity: pods on nodes reject other pods by it.
REPELLING: Final = PodTermFamily("required anti-affinity", "required_anti_affinity")
#: Required affinity: each term adds hardPodAffinityWeight to the score of pods that it matches.
ATTRACTING: Final = PodTermFamily("required affinity", "required_affinity")
#: Preferred terms as (weight, term); weights of anti-affinity are negative.
PREFERRING: Final = PodTermFamily("preferred affinity", "preferred")
