"""The arguments of the plugins that run predicates and priorities of a Policy file.

They have the names that kube-scheduler v1.16 gave the arguments in a Policy
(``pkg/scheduler/api/v1/types.go``), and its validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from podsched.config.errors import FieldError, invalid, not_supported, required
from podsched.config.model import Int32, ListOf, Model, decode, is_below, join
from podsched.config.plugin_args import (
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
    shape_errors,
)

#: The shape that kube-scheduler v1.16 uses without one: the emptier, the better.
DEFAULT_SHAPE = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)
_CPU_AND_MEMORY = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


def _default_shape(shape: tuple[UtilizationShapePoint, ...]) -> tuple[UtilizationShapePoint, ...]:
    return shape or DEFAULT_SHAPE


def _default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return resources or _CPU_AND_MEMORY


class CheckNodeLabelPresenceArgs(Model):
    """Labels that nodes must have, or must not have; their values do not matter."""

    labels: ListOf[str] = ()
    presence: bool = False

    def errors(self, path: str) -> list[FieldError]:
        return list(_labels_errors(self.labels, join(path, "labels")))


class CheckServiceAffinityArgs(Model):
    """Labels that the nodes of a service's pods have in common."""

    labels: ListOf[str] = ()

    def errors(self, path: str) -> list[FieldError]:
        return list(_labels_errors(self.labels, join(path, "labels")))


class ServiceAntiAffinityArgs(Model):
    """The label over whose values the pods of a service are spread."""

    label: str = ""

    def errors(self, path: str) -> list[FieldError]:
        return list(_label_errors(self.label, join(path, "label")))


class NodeLabelPriorityArgs(Model):
    """A label that preferred nodes have (``presence``), or do not have."""

    label: str = ""
    presence: bool = False

    def errors(self, path: str) -> list[FieldError]:
        return list(_label_errors(self.label, join(path, "label")))


class RequestedToCapacityRatioPriorityArgs(Model):
    """The shape (used share in percent to score 0..10), and the resources with their weights."""

    shape: Annotated[ListOf[UtilizationShapePoint], AfterValidator(_default_shape)] = DEFAULT_SHAPE
    resources: Annotated[ListOf[ResourceSpec], AfterValidator(_default_resources)] = _CPU_AND_MEMORY

    def errors(self, path: str) -> list[FieldError]:
        found = list(shape_errors(self.shape, join(path, "shape")))
        return found + list(_resource_errors(self.resources, join(path, "resources")))


class InterPodAffinityPriorityArgs(InterPodAffinityArgs):
    """Arguments of InterPodAffinityPriority."""


class MaxVolumeCountArgs(Model):
    """Arguments of the Max...VolumeCount family."""

    max_volumes: Int32 = 0
    """Volumes per node where the node's allocatable does not say; 0: the cloud's default."""

    def errors(self, path: str) -> list[FieldError]:
        if self.max_volumes >= 0:
            return []
        return [invalid(join(path, "maxVolumes"), self.max_volumes, "must not be negative")]


class MaxEBSVolumeCountArgs(MaxVolumeCountArgs):
    """Arguments of MaxEBSVolumeCount."""


class MaxGCEPDVolumeCountArgs(MaxVolumeCountArgs):
    """Arguments of MaxGCEPDVolumeCount."""


class MaxAzureDiskVolumeCountArgs(MaxVolumeCountArgs):
    """Arguments of MaxAzureDiskVolumeCount."""


class MaxCinderVolumeCountArgs(MaxVolumeCountArgs):
    """Arguments of MaxCinderVolumeCount."""


class GeneralPredicatesArgs(Model):
    """Arguments of GeneralPredicates."""

    ignored_resources: ListOf[str] = ()
    """Extended resources that are not checked."""


#: The filters that ``AlwaysCheckAllPredicates`` can run, with the models of their arguments.
CHECKED_PREDICATES: Mapping[str, type[Model] | None] = {
    "NodeUnschedulable": None,
    "NodeName": None,
    "NodePorts": None,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "TaintToleration": None,
    "NodeVolumeLimits": None,
    "VolumeBinding": VolumeBindingArgs,
    "VolumeZone": None,
    "PodTopologySpread": PodTopologySpreadArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "GeneralPredicates": GeneralPredicatesArgs,
    "NoDiskConflict": None,
    "PodToleratesNodeNoExecuteTaints": None,
    "CheckNodeLabelPresence": CheckNodeLabelPresenceArgs,
    "CheckServiceAffinity": CheckServiceAffinityArgs,
    "MaxEBSVolumeCount": MaxEBSVolumeCountArgs,
    "MaxGCEPDVolumeCount": MaxGCEPDVolumeCountArgs,
    "MaxAzureDiskVolumeCount": MaxAzureDiskVolumeCountArgs,
    "MaxCinderVolumeCount": MaxCinderVolumeCountArgs,
    "CheckNodeCondition": None,
    "CheckNodeMemoryPressure": None,
    "CheckNodeDiskPressure": None,
    "CheckNodePIDPressure": None,
}


class CheckedPredicate(Model):
    """A filter of ``AlwaysCheckAllPredicates`` with its arguments."""

    name: str = ""
    args: Any = None

    def decoded(self, found: list[FieldError], path: str = "args") -> Model | None:
        """Return the arguments as the filter takes them; errors are appended to ``found``."""
        kind = CHECKED_PREDICATES.get(self.name)
        if kind is None:
            return None
        args, bad = decode(kind, self.args or {}, path, found)
        found += [error for error in args.errors(path) if not is_below(error.path, bad)]
        return args

    def errors(self, path: str) -> list[FieldError]:
        found: list[FieldError] = []
        if self.name not in CHECKED_PREDICATES:
            found.append(not_supported(join(path, "name"), self.name, CHECKED_PREDICATES))
        self.decoded(found, join(path, "args"))
        return found


class AlwaysCheckAllPredicatesArgs(Model):
    """Arguments of AlwaysCheckAllPredicates."""

    predicates: ListOf[CheckedPredicate] = ()
    """The filters, in their order."""

    ignored_resources: ListOf[str] = ()
    """Extended resources that NodeResourcesFit and GeneralPredicates do not check."""

    def errors(self, path: str) -> list[FieldError]:
        found: list[FieldError] = []
        for at, predicate in enumerate(self.predicates):
            found += predicate.errors(join(path, "predicates", at))
        return found


def _resource_errors(resources: Sequence[ResourceSpec], path: str) -> Iterable[FieldError]:
    for at, resource in enumerate(resources):
        if resource.weight < 0:
            yield invalid(join(path, at, "weight"), resource.weight, "must not be negative")


def _labels_errors(labels: Sequence[str], path: str) -> Iterable[FieldError]:
    if not labels:
        yield required(path, "at least one label must be specified")


def _label_errors(label: str, path: str) -> Iterable[FieldError]:
    if not label:
        yield required(path)
