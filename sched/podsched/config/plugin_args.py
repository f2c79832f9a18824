"""The arguments of the in-tree plugins, with kube-scheduler v1.36's defaults and validation.

Source: k8s.io/kube-scheduler/config/v1 (types_pluginargs.go), its defaults, and
pkg/scheduler/apis/config/validation (validation_pluginargs.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from podsched.api import objects as v1
from podsched.api.names import label_value, qualified_name
from podsched.api.selectors import parse_int64
from podsched.config.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from podsched.config.model import (
    Duration,
    Int32,
    Int64,
    ListOf,
    Model,
    join,
    message_type,
    unless_empty,
)

if TYPE_CHECKING:
    NodeAffinity = v1.NodeAffinity
    TopologySpreadConstraint = v1.TopologySpreadConstraint
else:
    NodeAffinity = message_type(v1.NodeAffinity)
    TopologySpreadConstraint = message_type(v1.TopologySpreadConstraint)

#: Maximum score of a utilization shape; scaled to MaxNodeScore (100).
MAX_CUSTOM_PRIORITY_SCORE = 10


class ScoringStrategyType(StrEnum):
    """Ways to score a node's utilization."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class DefaultingType(StrEnum):
    """Sources of default topology spread constraints."""

    SYSTEM = "System"
    LIST = "List"


class ResourceSpec(Model):
    """A resource and its weight in a score; weight 0 means 1."""

    name: str = ""
    weight: Annotated[Int64, unless_empty(1)] = 1


CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


Resources = Annotated[ListOf[ResourceSpec], unless_empty(CPU_AND_MEMORY)]


class UtilizationShapePoint(Model):
    """The score (0 to 10) at a utilization in percent."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Model):
    """Parameters of RequestedToCapacityRatio."""

    shape: ListOf[UtilizationShapePoint] = ()

    def errors(self, path: str) -> Iterator[FieldError]:
        yield from shape_errors(self.shape, join(path, "shape"))


class ScoringStrategy(Model):
    """How NodeResourcesFit scores nodes."""

    # Not the enum: as in kube-scheduler, a strategy without a type is an error, and an unknown type
    # is reported together with the supported ones.
    type: str = ""
    resources: Resources = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.type not in list(ScoringStrategyType):
            yield not_supported(join(path, "type"), self.type, ScoringStrategyType)
        yield from _weight_errors(self.resources, join(path, "resources"))
        ratio, here = self.requested_to_capacity_ratio, join(path, "requestedToCapacityRatio")
        wanted = self.type == ScoringStrategyType.REQUESTED_TO_CAPACITY_RATIO
        if ratio is None and wanted:
            yield required(here, "must be specified when type is RequestedToCapacityRatio")
        elif ratio is not None and wanted:
            yield from ratio.errors(here)
        elif ratio is not None:
            yield forbidden(here, "must be nil when type is not RequestedToCapacityRatio")


class NodeResourcesFitArgs(Model):
    """Arguments of NodeResourcesFit."""

    ignored_resources: ListOf[str] = ()
    ignored_resource_groups: ListOf[str] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=ScoringStrategyType.LEAST_ALLOCATED)

    def errors(self, path: str) -> Iterator[FieldError]:
        for at, name in enumerate(self.ignored_resources):
            yield from _name_errors(join(path, "ignoredResources", at), name)
        for at, group in enumerate(self.ignored_resource_groups):
            here = join(path, "ignoredResourceGroups", at)
            if "/" in group:
                yield invalid(here, group, "resource group name can't contain '/'")
            else:
                yield from _name_errors(here, group)
        yield from self.scoring_strategy.errors(join(path, "scoringStrategy"))


class NodeResourcesBalancedAllocationArgs(Model):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: Resources = CPU_AND_MEMORY

    def errors(self, path: str) -> Iterator[FieldError]:
        seen = set()
        for at, resource in enumerate(self.resources):
            here = join(path, "resources", at)
            if resource.name in seen:
                yield duplicate(join(here, "name"), resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(join(here, "weight"), resource.weight, "must be 1")


class GangSchedulingArgs(Model):
    """Arguments of GangScheduling; kube-scheduler has none."""

    label_groups: bool = False
    """Also form groups of pods that name one by a label or annotation of the coscheduling plugin or
    of Volcano."""


class NodeAffinityArgs(Model):
    """Arguments of NodeAffinity."""

    added_affinity: NodeAffinity | None = None
    """Applies to all pods of the profile, in addition to their own."""

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.added_affinity is not None:
            yield from _affinity_errors(self.added_affinity, join(path, "addedAffinity"))


class InterPodAffinityArgs(Model):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def errors(self, path: str) -> Iterator[FieldError]:
        here = join(path, "hardPodAffinityWeight")
        yield from _range_errors(here, self.hard_pod_affinity_weight, 100)


class PodTopologySpreadArgs(Model):
    """Arguments of PodTopologySpread."""

    default_constraints: ListOf[TopologySpreadConstraint] = ()
    defaulting_type: Annotated[str, unless_empty(DefaultingType.SYSTEM)] = DefaultingType.SYSTEM

    def errors(self, path: str) -> Iterator[FieldError]:
        here = join(path, "defaultingType")
        if self.defaulting_type not in list(DefaultingType):
            yield not_supported(here, self.defaulting_type, DefaultingType)
        elif self.default_constraints and self.defaulting_type == DefaultingType.SYSTEM:
            yield invalid(here, self.defaulting_type, "when .defaultConstraints are not empty")
        seen = set()
        for at, constraint in enumerate(self.default_constraints):
            here = join(path, "defaultConstraints", at)
            yield from _constraint_errors(constraint, here)
            key = (constraint.topology_key, constraint.when_unsatisfiable)
            if key in seen:
                yield duplicate(here, "{" + ", ".join(key) + "}")
            seen.add(key)


class VolumeBindingArgs(Model):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: Int64 = 600
    shape: ListOf[UtilizationShapePoint] | None = None
    """Rejected: it needs the feature gate StorageCapacityScoring, which is off."""

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.bind_timeout_seconds < 0:
            reason = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(join(path, "bindTimeoutSeconds"), self.bind_timeout_seconds, reason)
        if self.shape is not None:
            reason = "needs the feature gate StorageCapacityScoring, which is off"
            yield forbidden(join(path, "shape"), reason)


class DefaultPreemptionArgs(Model):
    """Arguments of DefaultPreemption."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def errors(self, path: str) -> Iterator[FieldError]:
        percentage = self.min_candidate_nodes_percentage
        absolute = self.min_candidate_nodes_absolute
        percentage_path = join(path, "minCandidateNodesPercentage")
        absolute_path = join(path, "minCandidateNodesAbsolute")
        yield from _range_errors(percentage_path, percentage, 100)
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            reason = "cannot be zero at the same time as "
            yield invalid(percentage_path, 0, reason + "minCandidateNodesAbsolute")
            yield invalid(absolute_path, 0, reason + "minCandidateNodesPercentage")


class DynamicResourcesArgs(Model):
    """Arguments of DynamicResources; durations in seconds."""

    filter_timeout: Duration = 10.0
    binding_timeout: Duration = 600.0
    #: Not in Kubernetes, which evicts no pod for a device.
    preempt_for_devices: bool = False

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.filter_timeout < 0:
            reason = "must be zero or positive"
            yield invalid(join(path, "filterTimeout"), self.filter_timeout, reason)
        if self.binding_timeout < 1:
            reason = "must be at least 1 second"
            yield invalid(join(path, "bindingTimeout"), self.binding_timeout, reason)


def _name_errors(path: str, name: str) -> Iterator[FieldError]:
    """Yield the errors of the name of a resource or label."""
    return (invalid(path, name, reason) for reason in qualified_name(name))


def _range_errors(path: str, value: int, high: int) -> Iterator[FieldError]:
    if not 0 <= value <= high:
        yield invalid(path, value, f"not in valid range [0, {high}]")


def _weight_errors(resources: Sequence[ResourceSpec], path: str) -> Iterator[FieldError]:
    for at, resource in enumerate(resources):
        if not 0 < resource.weight <= 100:
            reason = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(join(path, at, "weight"), resource.weight, reason)


def shape_errors(shape: Sequence[UtilizationShapePoint], path: str) -> Iterator[FieldError]:
    """Yield the errors of a shape: no points, points out of order or out of range."""
    if not shape:
        yield required(path, "at least one point must be specified")
    for at in range(1, len(shape)):
        if shape[at - 1].utilization >= shape[at].utilization:
            reason = "values must be sorted in increasing order"
            yield invalid(join(path, at, "utilization"), shape[at].utilization, reason)
            break
    for at, point in enumerate(shape):
        yield from _range_errors(join(path, at, "utilization"), point.utilization, 100)
        yield from _range_errors(join(path, at, "score"), point.score, MAX_CUSTOM_PRIORITY_SCORE)


def _constraint_errors(constraint: v1.TopologySpreadConstraint, path: str) -> Iterator[FieldError]:
    if constraint.max_skew <= 0:
        yield invalid(join(path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(join(path, "topologyKey"), "can not be empty")
    else:
        yield from _name_errors(join(path, "topologyKey"), constraint.topology_key)
    action, here = constraint.when_unsatisfiable, join(path, "whenUnsatisfiable")
    if not action:
        yield required(here, "can not be empty")
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield not_supported(here, action, ("DoNotSchedule", "ScheduleAnyway"))
    if constraint.HasField("label_selector"):
        reason = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(join(path, "labelSelector"), reason)


def _affinity_errors(affinity: v1.NodeAffinity, path: str) -> Iterator[FieldError]:
    wanted = affinity.required_during_scheduling_ignored_during_execution
    here = join(path, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for at, term in enumerate(wanted.node_selector_terms):
        yield from _term_errors(term, join(here, at))
    here = join(path, "preferredDuringSchedulingIgnoredDuringExecution")
    for at, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield from _term_errors(preferred.preference, join(here, at, "preference"))


def _term_errors(term: v1.NodeSelectorTerm, path: str) -> Iterator[FieldError]:
    for at, requirement in enumerate(term.match_expressions):
        yield from _expression_errors(requirement, join(path, "matchExpressions", at))
    for at, requirement in enumerate(term.match_fields):
        here = join(path, "matchFields", at)
        if requirement.operator not in ("In", "NotIn"):
            yield not_supported(join(here, "operator"), requirement.operator, ("In", "NotIn"))
        elif len(requirement.values) != 1:
            yield required(join(here, "values"), "must have one element")


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _expression_errors(requirement: v1.NodeSelectorRequirement, path: str) -> Iterator[FieldError]:
    operator, values = requirement.operator, list(requirement.values)
    here = join(path, "values")
    yield from _name_errors(join(path, "key"), requirement.key)
    if operator not in _OPERATORS:
        yield not_supported(join(path, "operator"), operator, _OPERATORS)
        return
    if operator in ("In", "NotIn") and not values:
        yield invalid(here, values, "for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        yield invalid(here, values, "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            reason = "for 'Gt', 'Lt' operators, exactly one value is required"
            yield invalid(here, values, reason)
        elif parse_int64(values[0]) is None:
            reason = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield invalid(join(here, 0), values[0], reason)
    for at, value in enumerate(values):
        for reason in label_value(value):
            yield invalid(join(here, at), value, reason)
