"""Finds doubtful fields of new pods and pod templates, for warnings that kubectl prints.

Source: pkg/api/pod/warnings.go, v1.36, limited to scheduling, resources and environments:
deprecated node labels, null selectors that match no pod, fractional bytes, variables defined twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from podsched.api import node_labels, quantity
from podsched.api.kinds import kind_of
from podsched.api.kubelet_defaults import template_of
from podsched.api.objects import (
    AnyObject,
    Container,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAntiAffinity,
    PodSpec,
)
from podsched.api.resources import EPHEMERAL_STORAGE, MEMORY

_OLD_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    node_labels.BETA_ARCH: ("v1.14", node_labels.ARCH),
    node_labels.BETA_OS: ("v1.14", node_labels.OS),
    node_labels.BETA_REGION: ("v1.17", node_labels.REGION),
    node_labels.BETA_ZONE: ("v1.17", node_labels.ZONE),
    node_labels.BETA_INSTANCE_TYPE: ("v1.17", node_labels.INSTANCE_TYPE),
}
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"
#: Paths of pod templates; that of other kinds is "spec.template".
_TEMPLATES: Final = {"CronJob": "spec.jobTemplate.spec.template", "PodTemplate": "template"}


def pod_warnings(message: AnyObject) -> Iterator[str]:
    """Yield the warnings of a new pod, or of the pod template of a new object."""
    if isinstance(message, Pod):
        yield from _of_spec(message.spec)
    elif (template := template_of(message)) is not None:
        path = _TEMPLATES.get(kind_of(message).name, "spec.template")
        yield from (f"{path}.{text}" for text in _of_spec(template.spec))


def _of_spec(spec: PodSpec) -> Iterator[str]:
    for label in sorted(spec.node_selector):
        if advice := _deprecated(label):
            yield f"spec.nodeSelector[{label}]: {advice}"
    yield from _of_affinity(spec)
    for number, constraint in enumerate(spec.topology_spread_constraints):
        path = f"spec.topologySpreadConstraints[{number}]"
        if advice := _deprecated(constraint.topology_key):
            yield f"{path}.topologyKey: {constraint.topology_key} is {advice}"
        if not constraint.HasField("label_selector"):
            yield f"{path}.labelSelector: {_NO_SELECTOR}"
    yield from _fractions("spec.overhead", spec.overhead)
    for field, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
    ):
        for number, container in enumerate(containers):
            yield from _of_container(f"spec.{field}[{number}]", container)
    if spec.termination_grace_period_seconds < 0:
        why = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"spec.terminationGracePeriodSeconds: {why}"
    yield from _of_pod_affinity("spec.affinity.podAffinity", spec.affinity.pod_affinity)
    yield from _of_pod_affinity("spec.affinity.podAntiAffinity", spec.affinity.pod_anti_affinity)


def _of_pod_affinity(path: str, affinity: PodAffinity | PodAntiAffinity) -> Iterator[str]:
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    for number, term in enumerate(required):
        if not term.HasField("label_selector"):
            where = f"requiredDuringSchedulingIgnoredDuringExecution[{number}]"
            yield f"{path}.{where}.labelSelector: {_NO_SELECTOR}"
    for number, weighted in enumerate(preferred):
        if not weighted.pod_affinity_term.HasField("label_selector"):
            where = f"preferredDuringSchedulingIgnoredDuringExecution[{number}].podAffinityTerm"
            yield f"{path}.{where}.labelSelector: {_NO_SELECTOR}"


def _of_affinity(spec: PodSpec) -> Iterator[str]:
    affinity, path = spec.affinity.node_affinity, "spec.affinity.nodeAffinity"
    required = affinity.required_during_scheduling_ignored_during_execution
    for number, term in enumerate(required.node_selector_terms):
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{number}]"
        yield from _of_term(where, term)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    for number, weighted in enumerate(preferred):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{number}].preference"
        yield from _of_term(where, weighted.preference)


def _of_term(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    for number, expression in enumerate(term.match_expressions):
        if advice := _deprecated(expression.key):
            yield f"{path}.matchExpressions[{number}].key: {expression.key} is {advice}"


def _deprecated(label: str) -> str:
    since, instead = _OLD_LABELS.get(label, ("", ""))
    return f'deprecated since {since}; use "{instead}" instead' if since else ""


def _of_container(path: str, container: Container) -> Iterator[str]:
    for resource in (MEMORY, EPHEMERAL_STORAGE):
        for field in ("limits", "requests"):
            amounts = getattr(container.resources, field)
            if resource in amounts:
                yield from _fractions(f"{path}.resources.{field}", {resource: amounts[resource]})
    defined: set[str] = set()
    for number, variable in enumerate(container.env):
        if variable.name not in defined:
            defined.add(variable.name)
        elif _hides(variable.name, variable.value):
            yield (
                f'{path}.env[{number}]: hides previous definition of "{variable.name}", '
                "which may be dropped when using apply"
            )


def _hides(name: str, value: str) -> bool:
    """Return whether a value does not refer to the earlier variable of the same name."""
    reference = f"$({name})"
    return value == reference or reference not in value


def _fractions(path: str, amounts: Mapping[str, str]) -> Iterator[str]:
    for resource in (MEMORY, EPHEMERAL_STORAGE):
        text = amounts.get(resource)
        if text is not None and quantity.parse(text).denominator != 1:
            why = f'fractional byte value "{text}" is invalid, must be an integer'
            yield f"{path}[{resource}]: {why}"
