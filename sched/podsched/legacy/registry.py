"""The predicates and priorities of Policy files, by name: a part of ``podsched.registry``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podsched.framework.plugin import PluginFactory
from podsched.legacy.all_predicates import AlwaysCheckAllPredicates, GeneralPredicates
from podsched.legacy.even_pods_spread import EvenPodsSpreadPriority
from podsched.legacy.max_volume_count import (
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from podsched.legacy.no_disk_conflict import NoDiskConflict
from podsched.legacy.node_predicates import (
    CheckNodeCondition,
    CheckNodeDiskPressure,
    CheckNodeLabelPresence,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
    PodToleratesNodeNoExecuteTaints,
)
from podsched.legacy.node_priorities import (
    EqualPriority,
    NodeLabelPriority,
    NodePreferAvoidPodsPriority,
    ResourceLimitsPriority,
)
from podsched.legacy.requested_priorities import (
    BalancedResourceAllocation,
    LeastRequestedPriority,
    MostRequestedPriority,
    RequestedToCapacityRatioPriority,
)
from podsched.legacy.rescaled_priorities import (
    ImageLocalityPriority,
    InterPodAffinityPriority,
    NodeAffinityPriority,
    TaintTolerationPriority,
)
from podsched.legacy.selector_spread import (
    SelectorSpreadPriority,
    ServiceAntiAffinity,
    ServiceSpreadingPriority,
)
from podsched.legacy.service_affinity import CheckServiceAffinity

#: Name -> factory(args, handle); the predicates in the order in which they were evaluated.
LEGACY: Final[Mapping[str, PluginFactory]] = {
    plugin.name: plugin
    for plugin in (
        CheckNodeCondition, GeneralPredicates, NoDiskConflict, PodToleratesNodeNoExecuteTaints,
        CheckNodeLabelPresence, CheckServiceAffinity, MaxEBSVolumeCount, MaxGCEPDVolumeCount,
        MaxAzureDiskVolumeCount, MaxCinderVolumeCount, CheckNodeMemoryPressure,
        CheckNodePIDPressure, CheckNodeDiskPressure, AlwaysCheckAllPredicates,
        SelectorSpreadPriority, ServiceSpreadingPriority, ServiceAntiAffinity,
        InterPodAffinityPriority, LeastRequestedPriority, MostRequestedPriority,
        BalancedResourceAllocation, RequestedToCapacityRatioPriority,
        NodePreferAvoidPodsPriority, NodeAffinityPriority, TaintTolerationPriority,
        ImageLocalityPriority, NodeLabelPriority, EqualPriority, ResourceLimitsPriority,
        EvenPodsSpreadPriority,
    )
}  # fmt: skip
