"""Models of the arguments of predicates and priorities in a Policy file.

They have the names that kube-scheduler v1.16 gave the arguments in a Policy
(``pkg/scheduler/api/v1/types.go``), and its validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from podsched.config.errors import FieldError, invalid, not_supported, required
from podsched.config.model import Int32, ListOf, Model, decode_checked, join, unless_empty
from podsched.config.plugin_args import (
    CPU_AND_MEMORY,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    Resources,
    UtilizationShapePoint,
    VolumeBindingArgs,
    shape_errors,
)

#: The default shape of kube-scheduler v1.16: the less utilization, the higher the score.
DEFAULT_SHAPE = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


class CheckServiceAffinityArgs(Model):
    """Labels that the nodes of a service's pods have in common."""

    labels: ListOf[str] = ()

    def errors(self, path: str) -> Iterator[FieldError]:
        if not self.labels:
            yield required(join(path, "labels"), "at least one label must be specified")


class CheckNodeLabelPresenceArgs(CheckServiceAffinityArgs):
    """Labels that nodes must have, or must not have; their values do not matter."""

    presence: bool = False


class ServiceAntiAffinityArgs(Model):
    """The label over whose values the pods of a service are spread."""

    label: str = ""

    def errors(self, path: str) -> Iterator[FieldError]:
        if not self.label:
            yield required(join(path, "label"))


class NodeLabelPriorityArgs(ServiceAntiAffinityArgs):
    """A label that preferred nodes have (``presence``), or do not have."""

    presence: bool = False


class RequestedToCapacityRatioPriorityArgs(Model):
    """The shape (used share in percent to score 0..10), and the resources with their weights."""

    shape: Annotated[ListOf[UtilizationShapePoint], unless_empty(DEFAULT_SHAPE)] = DEFAULT_SHAPE
    resources: Resources = CPU_AND_MEMORY

    def errors(self, path: str) -> Iterator[FieldError]:
        yield from shape_errors(self.shape, join(path, "shape"))
        for at, resource in enumerate(self.resources):
            if resource.weight < 0:
                here = join(path, "resources", at, "weight")
                yield invalid(here, resource.weight, "must not be negative")


class InterPodAffinityPriorityArgs(InterPodAffinityArgs):
    """Arguments of InterPodAffinityPriority."""


class MaxVolumeCountArgs(Model):
    """Arguments of the Max...VolumeCount family."""

    max_volumes: Int32 = 0
    """Max volumes per node if the node's allocatable has no limit; 0: the provider's default."""

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.max_volumes < 0:
            yield invalid(join(path, "maxVolumes"), self.max_volumes, "must not be negative")


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
        return None if kind is None else decode_checked(kind, self.args or {}, path, found)

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.name not in CHECKED_PREDICATES:
            yield not_supported(join(path, "name"), self.name, CHECKED_PREDICATES)
        found: list[FieldError] = []
        self.decoded(found, join(path, "args"))
        yield from found


class AlwaysCheckAllPredicatesArgs(Model):
    """Arguments of AlwaysCheckAllPredicates."""

    predicates: ListOf[CheckedPredicate] = ()
    """The filters, in their order."""

    ignored_resources: ListOf[str] = ()
    """Extended resources that NodeResourcesFit and GeneralPredicates do not check."""

    def errors(self, path: str) -> Iterator[FieldError]:
        for at, predicate in enumerate(self.predicates):
            yield from predicate.errors(join(path, "predicates", at))
