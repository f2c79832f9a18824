"""Which plugins there are, at which extension points, and which of them run by default.

The order and the weights are those of kube-scheduler v1.36 (getDefaultPlugins). Plugins of features
that podsched does not have are known by name, so that files which mention them are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from podsched.config.model import Model
from podsched.config.plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)


class ExtensionPoint(StrEnum):
    """The extension points that can be configured, by their names in a configuration."""

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
    """What a configuration must know of a plugin to enable it."""

    name: str
    points: frozenset[ExtensionPoint]
    args: type[Model] | None = None
    """The model of its pluginConfig args; None: any object is passed on as it is."""
    weight: int = 0
    """Its weight in the default set, where it scores; 0 counts as 1."""
    runs: bool = True
    """False for plugins known by name alone."""


_P = ExtensionPoint
_FILTERS = frozenset({_P.PRE_FILTER, _P.FILTER})
_SCORES = frozenset({_P.PRE_SCORE, _P.SCORE})


def _spec(
    name: str,
    points: frozenset[ExtensionPoint] | ExtensionPoint,
    args: type[Model] | None = None,
    weight: int = 0,
    runs: bool = True,
) -> PluginSpec:
    at = frozenset({points}) if isinstance(points, ExtensionPoint) else points
    return PluginSpec(name, at, args, weight, runs)


_DEFAULTS = (
    _spec("SchedulingGates", _P.PRE_ENQUEUE),
    _spec("PrioritySort", _P.QUEUE_SORT),
    _spec("NodeUnschedulable", _P.FILTER),
    _spec("NodeName", _P.FILTER),
    _spec("TaintToleration", frozenset({_P.FILTER}) | _SCORES, weight=3),
    _spec("NodeAffinity", _FILTERS | _SCORES, NodeAffinityArgs, weight=2),
    _spec("NodePorts", _FILTERS),
    _spec(
        "NodeResourcesFit",
        _FILTERS | _SCORES | {_P.PLACEMENT_SCORE},
        NodeResourcesFitArgs,
        weight=1,
    ),
    _spec("VolumeRestrictions", _FILTERS),
    _spec("NodeVolumeLimits", _FILTERS),
    _spec("VolumeBinding", _FILTERS | _SCORES | {_P.RESERVE, _P.PRE_BIND}, VolumeBindingArgs),
    _spec("VolumeZone", _FILTERS),
    _spec("PodTopologySpread", _FILTERS | _SCORES, PodTopologySpreadArgs, weight=2),
    _spec("InterPodAffinity", _FILTERS | _SCORES, InterPodAffinityArgs, weight=2),
    _spec("DefaultPreemption", frozenset({_P.POST_FILTER, _P.PRE_ENQUEUE}), DefaultPreemptionArgs),
    _spec(
        "NodeResourcesBalancedAllocation",
        _SCORES,
        NodeResourcesBalancedAllocationArgs,
        weight=1,
    ),
    _spec("ImageLocality", _P.SCORE, weight=1),
    _spec("DefaultBinder", _P.BIND),
    _spec("NodeDeclaredFeatures", _FILTERS),
)
_KNOWN_BY_NAME = (
    _spec(
        "DynamicResources",
        _FILTERS | {_P.PRE_ENQUEUE, _P.POST_FILTER, _P.SCORE, _P.RESERVE, _P.PRE_BIND},
        DynamicResourcesArgs,
        runs=False,
    ),
    _spec("GangScheduling", frozenset({_P.PRE_ENQUEUE, _P.PERMIT}), runs=False),
    _spec("TopologyPlacementGenerator", _P.PLACEMENT_GENERATE, runs=False),
    _spec("PodGroupPodsCount", _P.PLACEMENT_SCORE, runs=False),
)

#: The default set, in its order.
DEFAULT_PLUGINS: tuple[PluginSpec, ...] = _DEFAULTS
#: Every plugin that belongs to kube-scheduler, by name.
IN_TREE_PLUGINS: Mapping[str, PluginSpec] = {
    spec.name: spec for spec in (*_DEFAULTS, *_KNOWN_BY_NAME)
}
#: Names that the v1 configuration refuses.
REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
