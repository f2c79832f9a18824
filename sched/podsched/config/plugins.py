"""List the in-tree plugins, their extension points, and the default set.

Order and weights are those of kube-scheduler v1.36 (getDefaultPlugins).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from podsched.config import plugin_args
from podsched.config.legacy import args as legacy
from podsched.config.model import Model


class ExtensionPoint(StrEnum):
    """The configurable extension points, with their names in a configuration."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    @property
    def label(self) -> str:
        """The name in metrics and messages: "PreFilter"."""
        return self.value[0].upper() + self.value[1:]


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin's extension points, arguments and default weight."""

    name: str
    points: frozenset[ExtensionPoint]
    args: type[Model] | None = None
    """The model of its pluginConfig args; None: any object is passed on unchanged."""
    weight: int = 0
    """Its weight in the default set, if it scores; 0 means 1."""
    nameable: bool = False
    """Whether it may be enabled several times, under names that the user chooses."""
    plugin: str = ""
    """The plugin that runs under this name if the user chose the name; "" otherwise."""
    idle: frozenset[ExtensionPoint] = frozenset()
    """The extension points among ``points`` at which podsched's plugin does nothing."""


_P = ExtensionPoint
_FILTERS = frozenset({_P.PRE_FILTER, _P.FILTER})
_SCORES = frozenset({_P.PRE_SCORE, _P.SCORE})


def _spec(
    name: str,
    points: frozenset[ExtensionPoint] | ExtensionPoint,
    args: type[Model] | None = None,
    **more: Any,
) -> PluginSpec:
    at = frozenset({points}) if isinstance(points, ExtensionPoint) else points
    return PluginSpec(name, at, args, **more)


#: The default set, in its order.
DEFAULT_PLUGINS: tuple[PluginSpec, ...] = (
    _spec("SchedulingGates", _P.PRE_ENQUEUE),
    _spec("PrioritySort", _P.QUEUE_SORT),
    _spec("NodeUnschedulable", _P.FILTER),
    _spec("NodeName", _P.FILTER),
    _spec("TaintToleration", frozenset({_P.FILTER}) | _SCORES, weight=3),
    _spec("NodeAffinity", _FILTERS | _SCORES, plugin_args.NodeAffinityArgs, weight=2),
    _spec("NodePorts", _FILTERS),
    _spec(
        "NodeResourcesFit",
        _FILTERS | _SCORES | {_P.PLACEMENT_SCORE},
        plugin_args.NodeResourcesFitArgs,
        weight=1,
    ),
    _spec("VolumeRestrictions", _FILTERS),
    _spec("NodeVolumeLimits", _FILTERS),
    _spec(
        "VolumeBinding",
        _FILTERS | _SCORES | {_P.RESERVE, _P.PRE_BIND},
        plugin_args.VolumeBindingArgs,
        idle=_SCORES,  # StorageCapacityScoring is off.
    ),
    _spec("VolumeZone", _FILTERS),
    _spec("PodTopologySpread", _FILTERS | _SCORES, plugin_args.PodTopologySpreadArgs, weight=2),
    _spec("InterPodAffinity", _FILTERS | _SCORES, plugin_args.InterPodAffinityArgs, weight=2),
    _spec(
        "DynamicResources",
        _FILTERS | {_P.PRE_ENQUEUE, _P.POST_FILTER, _P.SCORE, _P.RESERVE, _P.PRE_BIND},
        plugin_args.DynamicResourcesArgs,
        weight=2,
    ),
    _spec(
        "DefaultPreemption",
        frozenset({_P.POST_FILTER, _P.PRE_ENQUEUE}),
        plugin_args.DefaultPreemptionArgs,
    ),
    _spec(
        "NodeResourcesBalancedAllocation",
        _SCORES,
        plugin_args.NodeResourcesBalancedAllocationArgs,
        weight=1,
    ),
    _spec("ImageLocality", _P.SCORE, weight=1),
    _spec("DefaultBinder", _P.BIND),
    _spec("NodeDeclaredFeatures", _FILTERS),
    # kube-scheduler counts a gang's members at Permit.
    _spec(
        "GangScheduling",
        frozenset({_P.PRE_ENQUEUE, _P.PERMIT}),
        plugin_args.GangSchedulingArgs,
        idle=frozenset({_P.PERMIT}),
    ),
    _spec("TopologyPlacementGenerator", _P.PLACEMENT_GENERATE),
    _spec("PodGroupPodsCount", _P.PLACEMENT_SCORE, weight=1),
)

#: Predicates and priorities of Policy files that have no equivalent among today's plugins.
LEGACY_PLUGINS = (
    _spec("CheckNodeCondition", _P.FILTER),
    _spec("GeneralPredicates", _FILTERS, legacy.GeneralPredicatesArgs),
    _spec("NoDiskConflict", _FILTERS),
    _spec("PodToleratesNodeNoExecuteTaints", _P.FILTER),
    _spec("CheckNodeLabelPresence", _P.FILTER, legacy.CheckNodeLabelPresenceArgs, nameable=True),
    _spec("CheckServiceAffinity", _FILTERS, legacy.CheckServiceAffinityArgs, nameable=True),
    _spec("MaxEBSVolumeCount", _FILTERS, legacy.MaxEBSVolumeCountArgs),
    _spec("MaxGCEPDVolumeCount", _FILTERS, legacy.MaxGCEPDVolumeCountArgs),
    _spec("MaxAzureDiskVolumeCount", _FILTERS, legacy.MaxAzureDiskVolumeCountArgs),
    _spec("MaxCinderVolumeCount", _FILTERS, legacy.MaxCinderVolumeCountArgs),
    _spec("CheckNodeMemoryPressure", _P.FILTER),
    _spec("CheckNodePIDPressure", _P.FILTER),
    _spec("CheckNodeDiskPressure", _P.FILTER),
    _spec(
        "AlwaysCheckAllPredicates",
        _FILTERS | {_P.RESERVE, _P.PRE_BIND},
        legacy.AlwaysCheckAllPredicatesArgs,
    ),
    _spec("SelectorSpreadPriority", _SCORES),
    _spec("ServiceSpreadingPriority", _SCORES),
    _spec("ServiceAntiAffinity", _SCORES, legacy.ServiceAntiAffinityArgs, nameable=True),
    _spec("InterPodAffinityPriority", _SCORES, legacy.InterPodAffinityPriorityArgs),
    _spec("LeastRequestedPriority", _P.SCORE),
    _spec("MostRequestedPriority", _P.SCORE),
    _spec("BalancedResourceAllocation", _P.SCORE),
    _spec(
        "RequestedToCapacityRatioPriority",
        _P.SCORE,
        legacy.RequestedToCapacityRatioPriorityArgs,
        nameable=True,
    ),
    _spec("NodePreferAvoidPodsPriority", _P.SCORE),
    _spec("NodeAffinityPriority", _SCORES),
    _spec("TaintTolerationPriority", _SCORES),
    _spec("ImageLocalityPriority", _SCORES),
    _spec("NodeLabelPriority", _P.SCORE, legacy.NodeLabelPriorityArgs, nameable=True),
    _spec("EqualPriority", _P.SCORE),
    _spec("ResourceLimitsPriority", _P.SCORE),
    _spec("EvenPodsSpreadPriority", _SCORES),
)

#: All plugins of kube-scheduler and of its Policy files by name.
IN_TREE_PLUGINS: Mapping[str, PluginSpec] = {
    spec.name: spec for spec in (*DEFAULT_PLUGINS, *LEGACY_PLUGINS)
}
#: Names that the v1 configuration rejects.
REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
