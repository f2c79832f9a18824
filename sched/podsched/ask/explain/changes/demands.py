"""Drop one demand of the pod: a selector's requirement, an affinity term, a constraint, a port.

Each demand is dropped in turn and the pod is evaluated. Among the demands of a kind whose removal
makes the pod fit, the one with most feasible nodes wins. All have the same size, except for the
required node affinity: a single requirement is smaller than the whole affinity, so that is dropped
only if no single requirement is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Final, NamedTuple

from podsched.ask.explain.changes.question import Kind, Question, best
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change

_DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_REQUIRED: Final = "required_during_scheduling_ignored_during_execution"


class _Dropped(NamedTuple):
    """A pod without one of its demands; of two sizes the smaller wins."""

    description: str
    pod: v1.Pod
    size: int = 1


def remove_gates(question: Question) -> Change | None:
    """Return the removal of all scheduling gates, if that is enough."""
    gates = question.asked.pod.spec.scheduling_gates
    if not gates:
        return None
    names = ", ".join(gate.name for gate in gates)
    description = f"remove its scheduling gate{'s' if len(gates) > 1 else ''} {names}"
    return question.pod_change(Kind.GATES, description, float(len(gates)), question.pod.pod)


def drop(question: Question, kind: Kind) -> Change | None:
    """Return the best demand of a kind to drop; None if none is enough."""
    return best(
        DEMANDS[kind](question.pod.pod),
        lambda one: question.pod_change(kind, one.description, one.size, one.pod),
    )


# ---------------------------------------------------------------------------------- demands


def _selectors(pod: v1.Pod) -> Iterator[_Dropped]:
    for key, value in sorted(pod.spec.node_selector.items()):
        copy = deepcopy(pod)
        del copy.spec.node_selector[key]
        yield _Dropped(f"drop {key}={value} of its nodeSelector", copy)
    node_affinity = pod.spec.affinity.node_affinity
    if not node_affinity.HasField(_REQUIRED):
        return
    terms = node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    counts = [len(term.match_expressions) + len(term.match_fields) for term in terms]
    for place, term in enumerate(terms):
        # Without its only requirement a term would match no node.
        if counts[place] > 1:
            yield from _requirements(pod, place, term)
    copy = deepcopy(pod)
    copy.spec.affinity.node_affinity.ClearField(_REQUIRED)
    size = max(2, sum(counts)) if sum(counts) > 1 else 1
    yield _Dropped("drop its required node affinity", copy, size)


def _requirements(pod: v1.Pod, place: int, term: v1.NodeSelectorTerm) -> Iterator[_Dropped]:
    for field in ("match_expressions", "match_fields"):
        for index, requirement in enumerate(getattr(term, field)):
            copy = deepcopy(pod)
            required = (
                copy.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
            )
            del getattr(required.node_selector_terms[place], field)[index]
            yield _Dropped(f"drop {_requirement(requirement)} of its required node affinity", copy)


def _requirement(requirement: v1.NodeSelectorRequirement) -> str:
    parts = [requirement.key, requirement.operator]
    if requirement.values:
        parts.append(f"[{', '.join(requirement.values)}]")
    return " ".join(parts)


def _affinity_terms(pod: v1.Pod) -> Iterator[_Dropped]:
    for field, name in (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity")):
        affinity = getattr(pod.spec.affinity, field)
        terms = affinity.required_during_scheduling_ignored_during_execution
        for index, term in enumerate(terms):
            copy = deepcopy(pod)
            own = getattr(copy.spec.affinity, field)
            del own.required_during_scheduling_ignored_during_execution[index]
            if not own.ListFields():
                copy.spec.affinity.ClearField(field)
            wanted = _selector(term.label_selector)
            yield _Dropped(f"drop its pod {name} to {wanted} by {term.topology_key}", copy)


def _constraints(pod: v1.Pod) -> Iterator[_Dropped]:
    for index, constraint in enumerate(pod.spec.topology_spread_constraints):
        if constraint.when_unsatisfiable != _DO_NOT_SCHEDULE:
            continue
        copy = deepcopy(pod)
        del copy.spec.topology_spread_constraints[index]
        key, skew = constraint.topology_key, constraint.max_skew
        yield _Dropped(f"drop its spread constraint by {key} (maxSkew {skew})", copy)


def _ports(pod: v1.Pod) -> Iterator[_Dropped]:
    for field in ("init_containers", "containers"):
        for place, container in enumerate(getattr(pod.spec, field)):
            for index, port in enumerate(container.ports):
                if not port.host_port:
                    continue
                copy = deepcopy(pod)
                ports = getattr(copy.spec, field)[place].ports
                if pod.spec.host_network:  # There each port of a container is one of the host.
                    del ports[index]
                else:
                    ports[index].ClearField("host_port")
                protocol = port.protocol or "TCP"
                text = f"give up host port {port.host_port}/{protocol} of {container.name}"
                yield _Dropped(text, copy)


def _labels(pod: v1.Pod) -> Iterator[_Dropped]:
    for key, value in sorted(pod.metadata.labels.items()):
        copy = deepcopy(pod)
        del copy.metadata.labels[key]
        yield _Dropped(f"drop its label {key}={value}", copy)


def _selector(selector: v1.LabelSelector) -> str:
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for expression in selector.match_expressions:
        values = f" ({', '.join(expression.values)})" if expression.values else ""
        parts.append(f"{expression.key} {expression.operator}{values}")
    return "pods with " + ", ".join(parts) if parts else "all pods"


DEMANDS: Final[Mapping[Kind, Callable[[v1.Pod], Iterator[_Dropped]]]] = {
    Kind.NODE_SELECTOR: _selectors,
    Kind.AFFINITY: _affinity_terms,
    Kind.SPREAD: _constraints,
    Kind.PORT: _ports,
    # Existing pods' anti-affinity terms may select its labels.
    Kind.LABEL: _labels,
}
